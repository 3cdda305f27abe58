"""Configs of primitives: what `launch` takes."""

import re
from pathlib import Path

import numpy as np
import pytest

from soc.chip.spec import load_chip
from trainlib.config_file import read_config
from trainlib.launch import launch

PROGRAM = """
[program]
kernel = "linear_fw_f32"
args = { inputs = 8, outputs = 4, split = [1, 4] }
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "best.toml"


def test_what_a_config_says_is_launched(config: Path) -> None:
    config.write_text(f"{PROGRAM}[run]\nmax_cycles = 5\n[tune]\nsizes = 2\n")
    outputs, report = launch(*read_config(config))
    wanted, other = launch("linear_fw_f32", {"inputs": 8, "outputs": 4, "split": [1, 4]})
    assert report.is_correct
    assert report.cycles == other.cycles
    assert np.array_equal(outputs["Y"], wanted["Y"])


def test_chips_and_inputs_are_found_beside_the_config(config: Path) -> None:
    folder = config.parent
    (folder / "small.toml").write_text('base = "pulp"\nl1.size = 32768\n')
    np.savez(folder / "values.npz", X=np.ones((1, 8), np.float32))
    config.write_text(
        f'chip = {{ base = "small.toml", l1.banks = 8 }}{PROGRAM}inputs = "values.npz"'
    )
    kernel, arguments, chip, inputs = read_config(str(config))
    assert (kernel, arguments["split"]) == ("linear_fw_f32", (1, 4))
    pulp = load_chip("pulp")
    assert (chip.l1.size, chip.l1.banks, chip.cores) == (32768, 8, pulp.cores)
    assert inputs["X"].sum() == 8
    config.write_text(f'chip = "small.toml"{PROGRAM}')
    assert read_config(config).chip.l1.size == 32768


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"{file}: program: missing"),
        ("[program]\nargs = {}", r"{file}: program.kernel: missing"),
        (f"chip = 3{PROGRAM}", r"{file}: chip: must be the name or the path of a chip"),
        (
            f'chip = "plup"{PROGRAM}',
            r"chip 'plup': no such chip; did you mean pulp\? The path of a chip file ends in .toml",
        ),
        (
            f"{PROGRAM}inputs = 'no.npz'",
            r"{folder}/no.npz: cannot be read: No such file or directory",
        ),
    ],
)
def test_what_cannot_be_launched_is_told(config: Path, text: str, message: str) -> None:
    config.write_text(text)
    wanted = message.format(file=re.escape(str(config)), folder=re.escape(str(config.parent)))
    with pytest.raises(ValueError, match=f"^{wanted}$"):
        read_config(config)

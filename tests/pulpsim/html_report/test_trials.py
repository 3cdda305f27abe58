"""What would help, simulated: the same cycles as of a run of the changed kernel and chip."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pulpsim.commands.app import app
from pulpsim.html_report.losses import Loss, Trial
from pulpsim.html_report.trials import Change, changes
from soc.chip.spec import load_chip
from trainlib.launch import checked, launch

KERNEL, ARGUMENTS = "matmul_f32", {"n": 24, "k": 24, "m": 24, "unroll": 2}
HELLO = Path(__file__).parents[3] / "examples" / "hello.s"


def invoke(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    config, file = tmp_path / "run.toml", tmp_path / "run.trace"
    given = ", ".join(f"{name} = {value}" for name, value in ARGUMENTS.items())
    config.write_text(f'program.kernel = "{KERNEL}"\nprogram.args = {{{given}}}\n')
    assert invoke("run", config, "--trace", file, "--quiet")[0] == 0
    return file


def test_each_change_takes_what_a_run_with_it_takes(trace: Path) -> None:
    status, _, told = invoke("report", trace, "--try")
    lines = re.sub(r"\n {9}(?=\S)", " ", told.replace("         Simulated", "Simulated"))
    found = dict(re.findall(r"Simulated: (.*?): ([\d,]+) cycles instead of", lines))
    before = launch(KERNEL, ARGUMENTS)[1].result.cycles
    runs = {
        "tile = {}, buffers = 2": (ARGUMENTS | {"tile": {}, "buffers": 2}, {}),
        "chip: l1.size = 262,144": (ARGUMENTS, {"l1": {"size": 262_144}}),
        "unroll = 1": (ARGUMENTS | {"unroll": 1}, {}),
        "chip: icache.private_size = 1,024": (ARGUMENTS, {"icache": {"private_size": 1024}}),
    }
    assert status == 0
    assert f"cycles instead of {before:,}, " in lines
    assert (
        found.items()
        == {
            name: f"{launch(KERNEL, arguments, load_chip('pulp', chip))[1].result.cycles:,}"
            for name, (arguments, chip) in runs.items()
        }.items()
    )
    assert "Simulated" in trace.with_suffix(".html").read_text()
    assert max(map(len, told.splitlines())) <= 100


def test_without_the_option_nothing_is_simulated(trace: Path) -> None:
    assert "Simulated" not in invoke("report", trace)[2]
    assert "Simulated" not in trace.with_suffix(".html").read_text()


@pytest.mark.parametrize(
    ("loss", "arguments", "words"),
    [
        ("Waits for the DMA", {}, ["tile = {}, buffers = 2", "chip: l1.size = 262,144"]),
        (
            "Waits for the DMA",
            {"tile": {}, "buffers": 1},
            ["buffers = 2", "chip: l1.size = 262,144"],
        ),
        ("Waits for the DMA", {"tile": {}}, ["chip: l1.size = 262,144"]),
        ("Conflicts at L1's banks", {}, ["chip: l1.banks = 32"]),
        ("Instruction-cache misses", {"unroll": 1}, ["chip: icache.private_size = 1,024"]),
        ("Waits for the FPU", {"unroll": 2}, ["unroll = 4"]),
        ("Waits for the FPU", {"unroll": 4}, []),
        ("Barriers themselves", {}, []),
    ],
)
def test_only_options_that_the_kernel_and_the_chip_have_are_changed(
    loss: str, arguments: dict[str, Any], words: list[str]
) -> None:
    point = checked(KERNEL, ARGUMENTS | arguments)
    found = changes(Loss("", loss, 1), KERNEL, point, load_chip("pulp"))
    assert [change.words for change in found] == words
    assert all(isinstance(change, Change) for change in found)


def test_a_trial_says_what_was_hoped_for_and_what_came() -> None:
    trial = Trial("", "unroll = 1", 900, 950)
    assert trial.sentence(1000) == (
        "unroll = 1: 950 cycles instead of 1,000, 5.0 % fewer; 10.0 % if nothing of this loss were "
        "left"
    )
    assert "1,000 cycles instead of 1,000, no fewer" in Trial("", "a", 900, 1000).sentence(1000)
    assert Trial("", "a", 900, None).sentence(9) == (
        "a: this kernel cannot be built so for this chip"
    )


def test_a_file_without_a_kernel_is_refused(trace: Path, tmp_path: Path) -> None:
    other, result = tmp_path / "other.trace", tmp_path / "run.json"
    elf = tmp_path / "hello.elf"
    invoke("asm", HELLO, "-o", elf)
    assert invoke("run", elf, "--trace", other, "--quiet")[0] == 0
    invoke("run", elf, "--json", result, "--quiet")
    for file in (other, result):
        status, _, told = invoke("report", file, "--try")
        assert (status, told.count("\n")) == (2, 1)
        assert told.startswith(f"pulpsim: --try: {file} is no trace of a kernel of this version;")
    status, _, told = invoke("report", trace, "--cycle", "0-100", "--try")
    assert status == 2
    assert "is a part of a run; leave one of them out" in told


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"kernel": "matmul_f32"', b'"kernel": "matmul_f99"'), (b'"n": 24', b'"n": -4')],
)
def test_a_header_that_says_something_else_is_refused(trace: Path, old: bytes, new: bytes) -> None:
    data = trace.read_bytes()
    assert data.count(old) == 1
    trace.write_bytes(data.replace(old, new))
    status, _, told = invoke("report", trace, "--try")
    assert (status, told.count("\n")) == (2, 1)

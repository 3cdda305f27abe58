"""Options of `pulpsim run` for finding mistakes: checkpoints, values, where harts are."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from isa.assembler.asm import assemble
from pulpsim.commands import app as cli
from tests.soc.random_programs import ENTRY, ISA, random_program


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("elf") / "random.elf"
    file.write_bytes(random_program(3).to_elf())
    return file


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def told(file: Path) -> dict:
    result = json.loads(file.read_text())
    return {**result, "host": 0}


def test_a_program_may_be_named_by_position(elf: Path, tmp_path: Path) -> None:
    assert pulpsim("run", elf, "--json", tmp_path / "1.json", "--quiet").exit_code == 0
    assert pulpsim("run", "--elf", elf, "--json", tmp_path / "2.json", "--quiet").exit_code == 0
    assert told(tmp_path / "1.json") == told(tmp_path / "2.json")
    twice = pulpsim("run", elf, "--elf", elf)
    assert (twice.exit_code, twice.stderr) == (
        2,
        f"pulpsim: {elf} and --elf {elf}: two programs; leave one out\n",
    )


def test_a_run_goes_on_from_a_checkpoint_as_if_it_had_not_been_taken(
    elf: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    whole = ("--issue-trace", tmp_path / "1.txt", "--values", "--json", tmp_path / "1.json")
    rest = ("--issue-trace", tmp_path / "2.txt", "--values", "--json", tmp_path / "2.json")
    taking = ("--checkpoint-at", "800", kept)
    assert pulpsim("run", elf, *taking, *whole, "--quiet").exit_code == 0
    assert pulpsim("run", "--from", kept, *rest, "--quiet").exit_code == 0
    assert told(tmp_path / "1.json") == told(tmp_path / "2.json")
    lines = (tmp_path / "1.txt").read_text().splitlines()
    later = [line for line in lines if int(line.split()[0]) >= 800]
    assert (tmp_path / "2.txt").read_text().splitlines() == later


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--values"], "--values: belongs to --issue-trace FILE"),
        (["--checkpoint-at", "-3", "x"], "--checkpoint-at -3: a run begins at cycle 0"),
        (
            ["--checkpoint-at", "99999999", "x"],
            r"--checkpoint-at 99999999: the program has returned \d+ in cycle \d+",
        ),
        (["--from", "nowhere"], "nowhere: cannot be read: No such file or directory"),
        (["--checkpoint-at", "5", "no/x"], "--checkpoint-at no/x: there is no folder no"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    elf: Path, options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = pulpsim("run", elf, *options)
    assert result.exit_code == 2
    assert re.fullmatch(f"pulpsim: {message}", result.stderr.splitlines()[-1])


def test_a_run_that_does_not_end_says_where_every_hart_is(tmp_path: Path) -> None:
    file, report = tmp_path / "loop.elf", tmp_path / "run.json"
    file.write_bytes(assemble("_start: nop\nloop: j loop\n", ISA, text_base=ENTRY).to_elf())
    result = pulpsim("run", file, "--max-cycles", "500", "--json", report)
    assert result.exit_code == 3
    lines = result.stderr.splitlines()
    assert lines[-1] == "fc: loop at source:2: runs"
    assert lines[-9] == "core0: 0x00000000: is not started since cycle 0"
    where = json.loads(report.read_text())["where"]
    assert [one["name"] for one in where] == [*(f"core{h}" for h in range(8)), "fc"]
    assert where[8] == {
        "name": "fc",
        "doing": "runs",
        "since": None,
        "frames": [{"pc": ENTRY + 4, "function": "loop", "file": "source", "line": 2}],
    }

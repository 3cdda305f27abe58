"""The command `pulpsim`: what it prints where, and its exit status."""

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import pulpsim as ps
from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from isa.program import Program, Segment
from pulpsim.commands import app as cli
from pulpsim.commands.run import command as run

DATA = Path(__file__).parents[2] / "data"


class Simulation:
    """Stands for the simulator: returns a stored result, and remembers what it was asked."""

    def __init__(self) -> None:
        self.result: dict[str, Any] = json.loads((DATA / "result.json").read_text())
        self.text: Iterable[str] = ["Hello ", "from 8 cores\n"]
        self.asked: dict[str, Any] = {}
        self.failure: BaseException | None = None

    def run_program(
        self,
        program: Program,
        chip: Any,
        *,
        on_console: Callable[[str], None] | None,
        progress: Callable[[str], AbstractContextManager[None]],
        **how: Any,
    ) -> "Simulation":
        self.asked = {"program": program, "chip": chip, **how}
        if self.failure:
            raise self.failure
        with progress("compiling the interpreter"):
            pass
        for text in self.text if on_console else ():
            on_console(text)
        return self

    def to_json(self) -> dict[str, Any]:
        return self.result


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Simulation:
    simulation = Simulation()
    monkeypatch.setattr(run, "run_program", simulation.run_program)
    monkeypatch.setattr(run, "whereabouts", lambda result: [])
    return simulation


@pytest.fixture
def elf(tmp_path: Path) -> Path:
    file = tmp_path / "hello.elf"
    nop = Segment(0x1C000000, b"\x13\0\0\0", 4, executable=True)
    file.write_bytes(Program((nop,), entry=nop.address).to_elf())
    return file


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def test_the_programs_text_goes_to_standard_output_and_the_report_to_standard_error(
    simulation: Simulation, elf: Path
) -> None:
    result = pulpsim("run", "--elf", elf)
    assert result.stdout == "Hello from 8 cores\n"
    first, *_, last = result.stderr.splitlines()
    assert first == "compiling the interpreter ..."
    assert last == "exit: the program returned 0"
    assert "hello.elf on pulp, compiled engine: 1,234,567 cycles" in result.stderr
    assert result.exit_code == 0


def test_options_reach_the_simulator(simulation: Simulation, elf: Path) -> None:
    options = ["--engine", "event", "--max-cycles", "1000", "--set", "cores=4", "--set=l1.banks=8"]
    assert pulpsim("run", "--elf", elf, *options).exit_code == 0
    chip = simulation.asked["chip"]
    assert (chip.name, chip.cores, chip.l1.banks) == ("pulp", 4, 8)
    assert simulation.asked["engine"] == "event"
    assert simulation.asked["max_cycles"] == 1000
    assert simulation.asked["program"].entry == 0x1C000000


def test_a_config_file_is_enough(simulation: Simulation, elf: Path) -> None:
    config = elf.parent / "run.toml"
    config.write_text('[program]\nelf = "hello.elf"\n[report]\njson = "out.json"\n')
    assert pulpsim("run", config).exit_code == 0
    assert json.loads((elf.parent / "out.json").read_text()) == simulation.result


def test_quiet_leaves_the_programs_text_alone(simulation: Simulation, elf: Path) -> None:
    result = pulpsim("run", "--elf", elf, "--quiet")
    assert (result.stdout, result.stderr) == ("Hello from 8 cores\n", "")


def test_json_on_standard_output_is_alone_there(simulation: Simulation, elf: Path) -> None:
    result = pulpsim("run", "--elf", elf, "--json", "-")
    assert json.loads(result.stdout) == simulation.result
    assert "exit: the program returned 0" in result.stderr


def test_escape_sequences_of_the_program_do_not_reach_the_terminal(
    simulation: Simulation, elf: Path
) -> None:
    simulation.text = ["\x1b[2J", "ok\r\n"]
    assert pulpsim("run", "--elf", elf).stdout == "\\x1b[2Jok\\x0d\n"


@pytest.mark.parametrize(
    ("reason", "code", "status"),
    [
        ("exit", 0, 0),
        ("exit", 1, 1),
        ("exit", -1, 1),
        ("exit", 256, 1),
        ("max_cycles", 0, 3),
        ("deadlock", 0, 3),
        ("trap", 0, 3),
        ("interrupted", 0, 130),
    ],
)
def test_the_exit_status_says_how_the_run_ended(
    simulation: Simulation, elf: Path, reason: str, code: int, status: int
) -> None:
    simulation.result["exit"] = {"reason": reason, "code": code}
    assert pulpsim("run", "--elf", elf).exit_code == status


def test_a_kernel_with_a_wrong_result_has_failed(simulation: Simulation) -> None:
    assert run.status({**simulation.result, "program": {"correct": True}}) == 0
    assert run.status({**simulation.result, "program": {"correct": False}}) == 1


def test_an_interruption_without_a_result_ends_without_a_traceback(
    simulation: Simulation, elf: Path
) -> None:
    simulation.failure = KeyboardInterrupt()
    result = pulpsim("run", "--elf", elf)
    assert (result.exit_code, result.stderr) == (130, "pulpsim: interrupted\n")


def test_bad_input_is_told_line_by_line_with_status_2(simulation: Simulation, elf: Path) -> None:
    result = pulpsim("run", "--elf", elf, "--engine", "fast", "--set", "l1=4", "--chip", "pulp")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "pulpsim: --set: l1 = 4: must be a table",
        "pulpsim: --engine: run.engine = \"fast\": must be 'compiled' or 'event'",
    ]
    assert result.stdout == ""
    assert simulation.asked == {}


def test_a_file_that_is_no_elf_is_told_with_status_2(simulation: Simulation, elf: Path) -> None:
    elf.write_bytes(b"#!/bin/sh\n")
    result = pulpsim("run", "--elf", elf)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"pulpsim: {elf}: ")
    result = pulpsim("run", "--elf", "\x1b[31mabsent.elf")
    assert result.exit_code == 2
    assert result.stderr.startswith(r"pulpsim: \x1b[31mabsent.elf: ")


@pytest.mark.parametrize(
    ("place", "rule"),
    [
        ("", "is a folder, not a file"),
        ("absent/out.json", "there is no folder {folder}/absent"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_the_run(
    simulation: Simulation, elf: Path, place: str, rule: str
) -> None:
    file = elf.parent / place
    result = pulpsim("run", "--elf", elf, "--json", file)
    assert result.exit_code == 2
    assert result.stderr == f"pulpsim: --json {file}: {rule.format(folder=elf.parent)}\n"
    assert simulation.asked == {}


def test_a_full_disk_is_told(simulation: Simulation, elf: Path) -> None:
    result = pulpsim("run", "--elf", elf, "--quiet", "--json", "/dev/full")
    assert result.exit_code == 2
    assert result.stderr == (
        "pulpsim: --json /dev/full: cannot be written: No space left on device\n"
    )


def test_chips_lists_chips_and_fields() -> None:
    assert "pulp" in pulpsim("chips").stdout
    assert "l1.banks" in pulpsim("chips", "pulp").stdout
    assert pulpsim("chips", "plup").exit_code == 2


def test_help_says_in_one_line_what_each_command_does() -> None:
    lines = pulpsim("--help").stdout.partition("Commands:\n")[2].splitlines()
    assert len(lines) == 18
    assert not [line for line in lines if not line.endswith(".") or line.endswith("...")]


def test_help_is_short_too_and_shells_can_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pulpsim("-h").stdout == pulpsim("--help").stdout
    assert pulpsim("trace", "show", "-h").stdout == pulpsim("trace", "show", "--help").stdout
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "bash"))
    assert "=complete_bash" in pulpsim("--show-completion").stdout


def test_help_takes_a_hundred_columns_where_there_are_as_many() -> None:
    command = [sys.executable, "-m", "pulpsim", "run", "--help"]
    environment = {**os.environ, "COLUMNS": "120"}
    help_text = subprocess.run(command, capture_output=True, text=True, env=environment).stdout
    assert 90 < max(map(len, help_text.splitlines())) <= 100


def test_help_and_version_import_nothing_heavy() -> None:
    script = """
import sys
from pulpsim.commands.app import main
sys.argv = ["pulpsim", "--help"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
heavy = {"numba", "numpy", "pydantic", "rich", "simpy", "elftools", "isa", "soc"}
light = {"soc", "soc.host", "soc.host.signals", "soc.host.supported"}
print(sorted(name for name in {*sys.modules} - light if name.partition(".")[0] in heavy))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith("Usage: pulpsim")
    assert done.stdout.splitlines()[-1] == "[]"
    assert pulpsim("--version").stdout == f"pulpsim {ps.__version__}\n"
    assert re.fullmatch(r"\d+\.\d+.*|0\+unknown", ps.__version__)


def test_an_issue_trace_is_written(tmp_path: Path) -> None:
    program = assemble("_start: li a0, 0x1a1040a0; c.li a1, -1; sw a1, 0(a0)", profile("ri5cy"))
    elf, trace = tmp_path / "a.elf", tmp_path / "trace.txt.gz"
    elf.write_bytes(program.to_elf())
    arguments = ["run", "--elf", str(elf), "--quiet", "--issue-trace", str(trace)]
    CliRunner().invoke(cli.app, arguments)
    assert gzip.decompress(trace.read_bytes()).decode().splitlines()[:4] == [
        "3 8 1c008000 1a104537",
        "4 8 1c008004 0a050513",
        "5 8 1c008008 fff00593",
        "6 8 1c00800a 00b52023",
    ]


def test_options_say_how_a_run_is_watched(simulation: Simulation, elf: Path) -> None:
    pulpsim("run", "--elf", elf)
    assert simulation.asked["guards"] == (1_000_000, False, False)
    simulation.result["warnings"] = ["something"]
    assert pulpsim("run", "--elf", elf, "--strict", "--console-limit", "5").exit_code == 3
    assert simulation.asked["guards"] == (5, True, False)
    pulpsim("run", "--elf", elf, "--console", "raw")
    assert simulation.asked["guards"] == (1_000_000, False, True)


def test_a_null_pointer_ends_a_strict_run(tmp_path: Path) -> None:
    elf = tmp_path / "null.elf"
    elf.write_bytes(assemble("_start: sw a0, 4(zero)\n1: j 1b\n", profile("ri5cy", "x")).to_elf())
    config = tmp_path / "strict.toml"
    config.write_text('program.elf = "null.elf"\nrun.strict = true\n')
    result = pulpsim("run", config)
    assert result.exit_code == 3
    assert "store at 0x00000004, hardly meant: L2 answers there, as at 0x1c000004" in result.stderr

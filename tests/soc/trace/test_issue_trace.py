"""The issue trace: its lines, and every instruction against the RTL's traces.

data/issue_traces.tar.xz holds the traces of 20 measured runs of CV32E40P: cycle, core, address and
instruction of all that left the decode stage, up to the end of the last core.
"""

import tarfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from isa.extensions.profiles import profile
from pulpsim.fidelity.programs import ProgramRun
from soc.run import ENGINES, run_program
from soc.trace.issue_trace import ISSUE, issue_lines
from soc.trace.recorder import Recording
from tests.soc.trace.issue_comparison import first_difference, parse_issue_trace

TRACES = Path(__file__).parents[1] / "data" / "issue_traces.tar.xz"
ISA = profile("cv32e40p", "f")


@cache
def measured_lines() -> dict[ProgramRun, list[str]]:
    """The RTL's traces, each up to the cycle in which its core ends."""
    lines = {}
    with tarfile.open(TRACES) as archive:
        for member in archive:
            program, configuration, _ = member.name.split(".")
            run = ProgramRun("cv32e40p", program, configuration)
            file = archive.extractfile(member)
            assert file is not None
            ends = run.expected["exit"]["exit_cycle"]
            rows = [line.split() for line in file.read().decode().splitlines()]
            lines[run] = [" ".join(row) for row in rows if int(row[0]) <= ends[int(row[1])]]
    return lines


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("run", measured_lines(), ids=str)
def test_every_instruction_of_the_rtls_trace_issues_in_its_cycle(
    run: ProgramRun, engine: str, request: pytest.FixtureRequest
) -> None:
    is_full = request.config.getoption("--full")
    if engine == "compiled" and "zfinx" in run.configuration and not is_full:
        pytest.skip("another interpreter would have to be compiled")
    rtl = measured_lines()[run]
    result = run.simulate(engine, issue_trace=True)
    assert result.issues is not None
    assert first_difference(parse_issue_trace(rtl), result.issues) == ""
    isa = profile("cv32e40p", "x" if "zfinx" in run.configuration else "f")
    assert sorted(issue_lines(result.issues, isa)) == sorted(rtl)


def test_there_are_traces_of_20_runs() -> None:
    assert len(measured_lines()) == 20
    assert sum(map(len, measured_lines().values())) > 40_000


def issues(*rows: tuple[int, int, int, int]) -> np.ndarray:
    return np.array(list(rows), ISSUE)


TRACE = issues((4, 0, 0x1C000080, 0x32005073), (5, 1, 0x1C000080, 0x4585), (9, 0, 0x84, 0))


def test_a_line_has_cycle_hart_address_and_the_long_form_of_the_instruction() -> None:
    assert list(issue_lines(TRACE, ISA)) == [
        "4 0 1c000080 32005073",
        "5 1 1c000080 00100593",  # c.li a1, 1: addi a1, x0, 1
        "9 0 00000084 00000000",  # illegal: as it is
    ]


def test_lines_are_read_back_and_what_is_no_instruction_is_skipped() -> None:
    lines = ["# a comment", "", "4 0 1c000080 32005073 csrwi", "cycle hart pc", "7 1 1c000082"]
    assert parse_issue_trace(lines).tolist() == [
        (4, 0, 0x1C000080, 0x32005073),
        (7, 1, 0x1C000082, 0),
    ]


def test_the_first_difference_names_hart_instruction_cycle_and_address() -> None:
    late, elsewhere = TRACE.copy(), TRACE.copy()
    late["cycle"][2] = 10
    elsewhere["pc"][1] = 0x1C000084
    assert first_difference(TRACE, TRACE) == ""
    assert first_difference(TRACE, late) == (
        "hart 0, instruction 1: cycle 10 pc 0x00000084 instead of cycle 9 pc 0x00000084; "
        "before it cycle 4 pc 0x1c000080"
    )
    assert first_difference(TRACE, elsewhere) == (
        "hart 1, instruction 0: cycle 5 pc 0x1c000084 instead of cycle 5 pc 0x1c000080"
    )
    assert first_difference(TRACE, TRACE[:2]) == "hart 0: 1 instructions instead of 2"


def test_an_issue_trace_is_no_second_trace() -> None:
    with pytest.raises(
        ValueError,
        match=r"^issue_trace and trace exclude each other; a trace has all issues$",
    ):
        run_program("none.elf", issue_trace=True, trace=Recording(Path("none.trace")))

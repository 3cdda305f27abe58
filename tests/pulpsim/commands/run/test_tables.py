"""A result as a person reads it."""

import copy
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pulpsim.cli.terminal import short
from pulpsim.commands.run.tables import REGIONS, exit_line, header, regions_table, show

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def result() -> dict[str, Any]:
    return json.loads((DATA / "result.json").read_text())


def printed(*parts: Any, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    for part in parts:
        console.print(part)
    return _without_margin(console.file.getvalue())


def report(result: dict[str, Any], title: str) -> str:
    console = Console(file=io.StringIO(), width=100, markup=False, highlight=False)
    show(result, title, console)
    return _without_margin(console.file.getvalue())


def _without_margin(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def test_a_report_is_as_in_the_golden_file(
    result: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    text = report(result, "matmul.elf on pulp")
    golden = DATA / "report.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_the_shown_percentages_of_a_hart_and_its_issue_rate_close_to_100(
    result: dict[str, Any],
) -> None:
    lines = report(result, "x").splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("core0"))
    for line in lines[first : first + 8]:
        _, _, _, per_cycle, *stalls = line.split()
        assert 100 * float(per_cycle) + sum(map(float, stalls)) == pytest.approx(100, abs=1)


def test_parts_that_have_nothing_to_say_are_left_out(result: dict[str, Any]) -> None:
    for hart in result["harts"]:
        hart["regions"] = []
        hart["stalls"] = {}
    result["l1"] = {"banks": [{"accesses": 0, "conflicts": 0}] * 16}
    result["dma"] = {"beats": [0, 0], "l1_accesses": 0}
    result["warnings"] = []
    lines = report(result, "x").splitlines()
    assert lines[2].split() == ["hart", "cycles", "instr", "IPC"]
    assert len(lines) == 1 + 1 + 10 + 1 + 1


@pytest.mark.parametrize("width", [60, 70, 80])
def test_a_narrow_terminal_gets_fewer_columns_but_whole_numbers(
    result: dict[str, Any], width: int
) -> None:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    show(result, "x", console)
    narrow, wide = console.file.getvalue(), report(result, "x")
    assert "…" not in narrow
    tables = [line for line in narrow.splitlines() if line.startswith(("core", "fc", "0 ", "8 "))]
    assert max(map(len, tables)) <= width
    counts = {hart["name"]: hart["cycles"] for hart in result["harts"]}
    rows = [line.split() for line in tables if line.split()[0] in counts]
    assert [row[1] for row in rows] == [f"{cycles:,}" for cycles in counts.values()]
    cells = r"\d+\.?\d*[kM]?/\d+\.?\d*[kM]?"
    assert re.findall(cells, narrow) == re.findall(cells, wide)
    assert wide == report(result, "x")


def test_a_hart_that_never_ran_has_no_rate(result: dict[str, Any]) -> None:
    hart = result["harts"][0]
    hart |= {"cycles": 0, "instructions": 0, "stalls": {}}
    assert "core0          0          0\n" in report(result, "x")


def test_only_so_many_regions_are_shown(result: dict[str, Any]) -> None:
    region = result["harts"][0]["regions"][0]
    result["harts"][0]["regions"] = [
        {**copy.deepcopy(region), "id": index, "name": f"region {index}"}
        for index in range(100, 160)
    ]
    lines = printed(regions_table(result)).splitlines()
    assert len(lines) == 1 + REGIONS + 1
    assert lines[-1] == "... 22 more: --json has all"


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ({"reason": "exit", "code": 0, "message": ""}, "exit: the program returned 0"),
        ({"reason": "exit", "code": -1}, "exit: the program returned -1"),
        ({"reason": "max_cycles", "code": 0}, "stopped at the limit of 1,234,567 cycles"),
        ({"reason": "interrupted", "code": 0}, "interrupted at cycle 1,234,567"),
        (
            {"reason": "deadlock", "code": 0, "message": "deadlock at cycle 9: core 1 waits"},
            "deadlock at cycle 9: core 1 waits",
        ),
        (
            {"reason": "trap", "code": 0, "message": "cycle 9, core 3, pc 0x1c0081f4 (\x1b)"},
            r"cycle 9, core 3, pc 0x1c0081f4 (\x1b)",
        ),
    ],
)
def test_the_last_line_says_why_the_run_ended(
    result: dict[str, Any], end: dict[str, Any], line: str
) -> None:
    assert exit_line({**result, "exit": end}) == line


@pytest.mark.parametrize(
    ("rate", "error", "is_correct", "rest"),
    [
        (
            5.149,
            8.6e-6,
            True,
            ", 5.15 a cycle in compute, 4.00 in the whole run; largest error 8.6e-06",
        ),
        (
            0.5,
            0.1,
            False,
            ", 0.50 a cycle in compute, 4.00 in the whole run; largest error 0.1: WRONG",
        ),
        (None, None, False, "; not finite: WRONG"),
    ],
)
def test_a_kernel_is_told_by_its_work_rate_and_error(
    result: dict[str, Any], rate: float | None, error: float | None, is_correct: bool, rest: str
) -> None:
    kernel = {"macs": 64**3, "macs_per_cycle": rate, "max_error": error, "correct": is_correct}
    whole = {**result, "program": kernel, "cycles": 65_536}
    assert report(whole, "x").splitlines()[-5] == f"262,144 multiply-adds{rest}"


def test_a_rate_with_warm_caches_is_of_the_second_of_two_runs(result: dict[str, Any]) -> None:
    kernel = {"macs": 64**3, "macs_per_cycle": 5.3, "max_error": 0.0, "correct": True, "warm": True}
    lines = report({**result, "program": kernel}, "x").splitlines()
    assert "262,144 multiply-adds, 5.30 a cycle in compute; largest error 0" in lines


def test_a_rate_of_halves_stands_beside_what_their_pairs_allow(result: dict[str, Any]) -> None:
    kernel = {
        "macs": 64**3,
        "macs_per_cycle": 10.1,
        "max_error": 0.0,
        "correct": True,
        "warm": True,
    }
    kernel |= {"lanes": 2, "macs_per_cycle_limit": 16}
    lines = report({**result, "program": kernel}, "x").splitlines()
    rate = "10.10 a cycle in compute (pairs of halves: 16 at most)"
    assert f"262,144 multiply-adds, {rate}; largest error 0" in lines


def test_a_result_that_is_not_complete_is_not_called_wrong(result: dict[str, Any]) -> None:
    kernel = {"macs": 64**3, "macs_per_cycle": None, "max_error": 29.0, "correct": False}
    result["exit"] = {"reason": "interrupted", "code": 0, "message": "interrupted in cycle 9"}
    lines = report({**result, "program": kernel}, "x").splitlines()
    assert "262,144 multiply-adds, not all of them done" in lines
    assert "WRONG" not in "".join(lines)


def test_a_long_sentence_stays_on_its_line(result: dict[str, Any]) -> None:
    message = "deadlock at cycle 9: " + "; ".join(f"hart {h} is not started" for h in range(8))
    result["exit"] = {"reason": "deadlock", "code": 0, "message": message}
    assert report(result, "x").splitlines()[-1] == message


def test_a_programs_name_cannot_reach_the_terminal_unescaped(result: dict[str, Any]) -> None:
    assert header(result, "a\x1b[31m.elf on pulp").startswith(r"a\x1b[31m.elf on pulp, compiled")
    result["harts"][0]["regions"][0]["name"] = "[bold]\x1b[0m"
    assert r"[bold]\x1b[0m" in printed(regions_table(result))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9_999, "9999"),
        (10_000, "10.0k"),
        (99_949, "99.9k"),
        (99_951, "100k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (123_456_789, "123M"),
        (5_000_000_000, "5.0G"),
        (1 << 62, "4.6E"),
    ],
)
def test_a_short_count_takes_five_characters_at_most(number: int, text: str) -> None:
    assert short(number) == text
    assert len(text) <= 5

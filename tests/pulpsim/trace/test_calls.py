"""Call stacks: the vectorised ones equal those kept one instruction at a time."""

from pathlib import Path

import numpy as np
import pytest

from pulpsim.trace.calls import CallStacks
from pulpsim.trace.code import CALL, RETURN, Code
from soc.trace.reader import EVENT, Kind, Trace
from tests.pulpsim.trace.recordings import AGAIN, BASE, DOUBLE, LOAD, MAIN, RET, events, recording
from tests.pulpsim.trace.recordings import CALL as CALL_PC


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return recording(tmp_path)


def told(code: Code, rows: np.ndarray) -> list[tuple[int, int, str]]:
    return [
        (
            int(row["cycle"]),
            int(row["hart"]),
            "-+"[int(row["is_begin"])] + code.functions[row["function"]],
        )
        for row in rows
    ]


def test_calls_and_returns_begin_and_end_functions(trace: Trace) -> None:
    code = Code(trace)
    stacks = CallStacks(code, 9)
    assert told(code, stacks.changes(events())) == [
        *((2, 0, "+main"), (5, 0, "+double"), (8, 0, "-double"), (8, 1, "+main"))
    ]
    assert told(code, stacks.close(14)) == [(14, 0, "-main"), (14, 1, "-main")]
    assert stacks.close(14).size == 0


def issues(*pcs: int) -> np.ndarray:
    return np.array([(k, Kind.ISSUE, 0, 0, pc, 0) for k, pc in enumerate(pcs)], EVENT)


@pytest.mark.parametrize(
    ("pcs", "expected"),
    [
        ([DOUBLE, RET, LOAD], ["+double", "-double", "+main"]),  # its call was not recorded
        ([MAIN, DOUBLE, MAIN], ["+main", "-main", "+double", "-double", "+main"]),  # jumps
        ([CALL_PC, LOAD], ["+main"]),  # what was called was not recorded
        ([CALL_PC, DOUBLE, RET, DOUBLE], ["+main", "+double", "-double", "-main", "+double"]),
        ([CALL_PC, MAIN, CALL_PC, DOUBLE], ["+main", "+main", "+double"]),
        ([CALL_PC, CALL_PC, RET, AGAIN], ["+main", "+main", "+double", "-double"]),
        ([BASE + 100, MAIN], ["+", "-", "+main"]),
    ],
)
def test_what_executes_is_on_top_of_the_stack(
    trace: Trace, pcs: list[int], expected: list[str]
) -> None:
    code = Code(trace)
    rows = CallStacks(code, 1).changes(issues(*pcs))
    assert [text for _, _, text in told(code, rows)] == expected


def one_by_one(code: Code, rows: np.ndarray) -> list[tuple[int, int, str]]:
    """The same, told by keeping a stack."""
    stack: list[int] = []
    found = []
    last = None
    for row in rows:
        pc = int(row["a"])
        function = int(code.function(np.array([pc]))[0])
        flow, size = (int(a[0]) for a in code.flow(np.array([last or 0])))
        if last is not None and flow == RETURN and len(stack) > 1:
            found.append((row["cycle"], False, stack.pop()))
        if last is None or (flow == CALL and last + size != pc):
            stack.append(function)
            found.append((row["cycle"], True, function))
        if stack[-1] != function:
            found.append((row["cycle"], False, stack.pop()))
            stack.append(function)
            found.append((row["cycle"], True, function))
        last = pc
    return [(int(c), 0, "-+"[b] + code.functions[f]) for c, b, f in found]


@pytest.mark.parametrize("seed", range(20))
def test_random_jumps_give_the_stacks_that_are_kept_one_by_one(trace: Trace, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = issues(*random.choice([MAIN, CALL_PC, DOUBLE, RET, LOAD, BASE + 100], 300).tolist())
    code = Code(trace)
    stacks = CallStacks(code, 1)
    cuts = np.sort(random.integers(0, rows.size, 5))
    pieces = [told(code, stacks.changes(part)) for part in np.split(rows, cuts)]
    assert [each for piece in pieces for each in piece] == one_by_one(code, rows)

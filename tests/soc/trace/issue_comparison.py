"""The issue trace: every instruction that leaves the decode stage, a line each.

    4 0 1c000080 32005073        cycle, hart, address, instruction (its 32-bit form), both in hex

The same form as the traces of the RTL that the simulator is held against, so that the first
instruction that differs can be found.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from isa.declare import Isa
from soc.trace import Kind, Trace

ISSUE = np.dtype([("cycle", "i8"), ("hart", "u2"), ("pc", "u4"), ("word", "u4")])
"""One instruction; `word` as it lies in memory, of 16 bits or 32."""


def issues_of(trace: Trace) -> np.ndarray:
    """ISSUE[n], the instructions of a trace."""
    events = trace.select(Kind.ISSUE)
    issues = np.empty(events.size, ISSUE)
    for name, field in {"cycle": "cycle", "hart": "hart", "pc": "a", "word": "b"}.items():
        issues[name] = events[field]
    issues["cycle"] += trace.first_cycle
    return issues


def issue_lines(issues: np.ndarray, isa: Isa) -> Iterator[str]:
    """The lines of a trace, in its order."""
    forms: dict[int, str] = {}
    for cycle, hart, pc, word in issues.tolist():
        form = forms.get(word)
        if form is None:
            form = forms[word] = f"{long_form(word, isa):08x}"
        yield f"{cycle} {hart} {pc:08x} {form}"


def long_form(word: int, isa: Isa) -> int:
    """The 32-bit instruction that a 16-bit one stands for; other words as they are."""
    decoded = isa.decode(word) if word & 3 != 3 else None
    return isa.encode(decoded.insn, **decoded.operands) if decoded else word


def parse_issue_trace(lines: Iterable[str]) -> np.ndarray:
    """A trace from its lines; what is not an instruction's is skipped. Returns ISSUE[n]."""
    rows = []
    for line in lines:
        words = line.split()
        if len(words) >= 3 and words[0].isdigit():
            word = int(words[3], 16) if len(words) > 3 else 0
            rows.append((int(words[0]), int(words[1]), int(words[2], 16), word))
    return np.array(rows, ISSUE)


def first_difference(expected: np.ndarray, issues: np.ndarray) -> str:
    """The first instruction of a hart whose address or cycle differs; "" if there is none."""
    for hart in sorted({*expected["hart"].tolist(), *issues["hart"].tolist()}):
        one, other = (trace[trace["hart"] == hart] for trace in (expected, issues))
        count = min(one.size, other.size)
        places = np.flatnonzero(
            (one["pc"][:count] != other["pc"][:count])
            | (one["cycle"][:count] != other["cycle"][:count])
        )
        if places.size:
            k = int(places[0])
            return (
                f"hart {hart}, instruction {k}: {_place(other[k])} instead of {_place(one[k])}"
                + (f"; before it {_place(one[k - 1])}" if k else "")
            )
        if one.size != other.size:
            return f"hart {hart}: {other.size} instructions instead of {one.size}"
    return ""


def _place(issue: np.void) -> str:
    return f"cycle {issue['cycle']} pc {int(issue['pc']):#010x}"

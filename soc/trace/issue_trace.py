"""The issue trace: every instruction that leaves the decode stage, a line each.

    4 0 1c000080 32005073        cycle, hart, address, instruction (its 32-bit form), both in hex

It has the form of the RTL's traces that the simulator is held against.
"""

from collections.abc import Iterator

import numpy as np

from isa.declare import Isa
from soc.trace.reader import Kind, Trace

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

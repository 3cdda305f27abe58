"""Issue traces of others: read, and compared with a run's."""

from collections.abc import Iterable

import numpy as np

from soc.trace.issue_trace import ISSUE


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

"""Panels of rows, each computed with the same code: where the next one, and the next group, lie."""

from collections.abc import Callable

from trainlib.codegen.spill import Values
from trainlib.conv.correlation import Correlation


def next_panel(v: Values, x: Correlation, rows: int = 1) -> None:
    """Advance to what comes after so many rows of a panel."""
    v.add("w_panel", rows * x.w.row)
    v.add("y_panel", rows * x.y.channel)
    if x.bias is not None:
        v.add("bias", rows * x.row_size)


def next_group(v: Values, x: Correlation, rows: int) -> None:
    """Advance from after all rows of a group to the next one."""
    v.add("w_panel", x.w.group - rows * x.w.row)
    v.add("y_panel", x.y.group - rows * x.y.channel)
    v.add("x_start", x.x.group)


def each_row(v: Values, x: Correlation, rows: int, groups: int, emit: Callable[[], None]) -> None:
    """Loops around the code of a row: over rows, and over groups of them."""
    with v.loop("groups", groups):
        with v.loop("panels", rows):
            emit()
            next_panel(v, x)
        if groups > 1:
            next_group(v, x, rows)

"""A measured figure beside what it should be, and figures as a table and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One row of the table.

    name      what was measured
    ours      in `unit`
    limit     what it is held against, in the same unit: the yardstick, or the best of a series
    ratio     ours over limit, taken pair by pair where the two were measured in pairs
    least     the ratio, or where there is none `ours`, should be at least this
    most      the same, at most
    published what others have measured, in the same unit
    """

    name: str
    ours: float
    unit: str
    limit: float | None = None
    ratio: float | None = None
    least: float | None = None
    most: float | None = None
    published: float | None = None

    @classmethod
    def of_pairs(
        cls, name: str, unit: str, pairs: Iterable[Sequence[float]], **bound: float
    ) -> "Figure":
        """The medians of ours and the limit, and of their ratios, measured in pairs.

        bound    least or most
        """
        ours, limit = zip(*pairs, strict=True)
        ratio = median(mine / theirs for mine, theirs in zip(ours, limit, strict=True))
        return cls(name, median(ours), unit, median(limit), ratio, **bound)

    def __str__(self) -> str:
        """The row in a line, while others are measured."""
        return f"{self.name}: {_number(self.ours)} {self.unit}".rstrip() + (
            f", ratio {self.shown_ratio}" if self.ratio is not None else ""
        )

    @property
    def is_met(self) -> bool | None:
        """Does it reach its target? None: it has none."""
        return self._meets(self.ours if self.ratio is None else self.ratio)

    def _meets(self, value: float) -> bool | None:
        if self.least is not None:
            return value >= self.least
        return None if self.most is None else value <= self.most

    @property
    def shown_ratio(self) -> str:
        """The ratio in three digits, or as many as show whether it reaches its target."""
        if self.ratio is None:
            return ""
        digits = (f"{self.ratio:.{count}g}" for count in range(3, 18))  # 17 say which number it is
        return next(text for text in digits if self._meets(float(text)) == self.is_met)

    @property
    def target(self) -> str:
        """The target in words."""
        if self.least is not None:
            return f"at least {self.least:g}"
        return "" if self.most is None else f"at most {self.most:g}"

    def to_json(self) -> dict[str, Any]:
        """The row for programs."""
        return vars(self) | {"is_met": self.is_met}


def show(figures: Iterable[Figure]) -> None:
    """Print figures as a table."""
    table = Table(box=None, header_style="bold")
    table.add_column("figure")
    for heading in ("ours", "limit", "published", "", "ratio", "target", ""):
        table.add_column(heading, justify="left" if heading == "target" else "right")
    for figure in figures:
        table.add_row(
            figure.name,
            _number(figure.ours),
            _number(figure.limit),
            _number(figure.published),
            figure.unit,
            figure.shown_ratio,
            figure.target,
            {True: "met", False: "missed", None: ""}[figure.is_met],
        )
    Console(width=120).print(table)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"

"""Values as notebooks show them: tables in HTML, and rows as a pandas frame."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

MOST_ROWS = 60
"""Rows that a table shows; the frame has them all."""


def frame(rows: Iterable[Mapping[str, Any]] | Mapping[str, Any]) -> Any:
    """Rows as a pandas.DataFrame, a column for each name; or columns by name.

    raises    ImportError without pandas, with the way out
    """
    try:
        from pandas import DataFrame
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install pandas", name="pandas") from None
    return DataFrame(rows if isinstance(rows, Mapping) else list(rows))


def html_table(title: str, rows: Iterable[Mapping[str, Any]], note: str = "") -> str:
    """Rows as an HTML table: numbers to the right, with their thousands apart.

    title    above it
    note     below it
    """
    rows = list(rows)
    shown, left = rows[:MOST_ROWS], len(rows) - MOST_ROWS
    columns = list(dict.fromkeys(name for row in shown for name in row))
    lines = [
        _line("th", columns),
        *(_line("td", [row.get(c, "") for c in columns]) for row in shown),
    ]
    more = [note] if note else []
    if left > 0:
        more.insert(0, f"{left:,} more rows")
    body = f"<table>{''.join(lines)}</table>" if columns else ""
    below = "".join(f"<div>{escape(line)}</div>" for line in more)
    return f"<div><b>{escape(title)}</b></div>{body}{below}"


def _line(tag: str, values: Sequence[Any]) -> str:
    return f"<tr>{''.join(_cell(tag, value) for value in values)}</tr>"


def _cell(tag: str, value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    side = "right" if is_number else "left"
    return f'<{tag} style="text-align: {side}">{escape(_shown(value))}</{tag}>'


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)

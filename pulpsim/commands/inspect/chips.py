"""pulpsim chips: the chips that there are, and every field of one."""

from typing import Any

from pydantic import BaseModel
from rich.console import Group
from rich.table import Table

from pulpsim.cli.terminal import compact_table
from soc.chip.spec import chip_names, load_chip
from soc.config.validation import field_note, fields, shown_value

COLUMNS = "field", "value", "unit", "default", "source"
DEFAULT = COLUMNS.index("default")  # left out if nothing departs from it
TITLE = [("name",), ("description",)]


def chips_table() -> Table:
    """All chips by name."""
    table = compact_table("chip", "description", left=2)
    table.columns[-1].no_wrap = False
    for name in chip_names():
        table.add_row(name, load_chip(name).description)
    return table


def fields_table(chip: str) -> Group:
    """Every field of a chip: its value, the default where the chip departs from it, its origin.

    raises    ConfigError if the chip does not exist or has mistakes
    """
    spec = load_chip(chip)
    rows = []
    for path, field in fields(type(spec)):
        if path in TITLE:
            continue
        unit = field_note(field, "unit")
        value, default = _shown(_value(spec, path), unit), _shown(field.default, unit)
        departs = "" if value == default else default
        rows.append([".".join(path), value, unit, departs, field_note(field, "source")])
    shown = [at for at in range(len(COLUMNS)) if at != DEFAULT or any(row[at] for row in rows)]
    table = compact_table(*(COLUMNS[at] for at in shown), left=len(shown))
    table.columns[-1].no_wrap = False
    for row in rows:
        table.add_row(*(row[at] for at in shown))
    return Group(f"{spec.name}: {spec.description}", table)


def _shown(value: Any, unit: str) -> str:
    return f"0x{value:08x}" if unit == "address" else shown_value(value)


def _value(spec: BaseModel, path: tuple[str, ...]) -> Any:
    value: Any = spec
    for name in path:
        value = getattr(value, name)
    return value

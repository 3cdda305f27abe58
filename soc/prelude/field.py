"""A field of a chip: its default, its unit and where the figure comes from."""

from typing import Any

from pydantic import Field


def setting(default: Any, unit: str, source: str, **limits: Any) -> Any:
    """Declare one field of a component's Spec.

    unit      "cycles", "bytes", "banks", "address", ... ("" for a choice)
    source    RTL file, manual section or measurement that gives the default
    limits    pydantic's: ge, le, multiple_of, description, ...; 0..2^32-1 for a number without
    """
    if isinstance(default, int) and not isinstance(default, bool):
        limits = {
            **({} if "gt" in limits else {"ge": 0}),
            **({} if "lt" in limits else {"le": 0xFFFF_FFFF}),
            **limits,
        }
    return Field(default, json_schema_extra={"unit": unit, "source": source}, **limits)

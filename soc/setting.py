"""A field of a chip: its default, its unit and where the figure comes from."""

from typing import Any

from pydantic import Field


def setting(default: Any, unit: str, source: str, **limits: Any) -> Any:
    """Declare one field of a component's Spec.

    unit      "cycles", "bytes", "banks", ... ("" for a choice)
    source    RTL file, manual section or measurement that gives the default
    limits    pydantic's: ge, le, multiple_of, description, ...
    """
    return Field(default, json_schema_extra={"unit": unit, "source": source}, **limits)

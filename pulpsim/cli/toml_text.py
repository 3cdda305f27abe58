"""Values as TOML has them, for config files that commands write."""

import json
from typing import Any


def toml_value(value: Any) -> str:
    """A number, a text, a list or a table on one line."""
    if isinstance(value, dict):
        inside = ", ".join(f"{name} = {toml_value(v)}" for name, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)

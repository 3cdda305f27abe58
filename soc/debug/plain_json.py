"""Plain data as JSON, and back, exactly: tuples, sets, bytes, counters of timers, keys of any kind.

What JSON has itself stands for itself; other values are an object with one entry, their kind.
"""

from dataclasses import asdict
from typing import Any

from soc.peripherals.timer import Counter


def encoded(value: Any) -> Any:
    """Plain data as JSON has it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict):
        return {"dict": [[encoded(key), encoded(entry)] for key, entry in value.items()]}
    if isinstance(value, Counter):
        return {"counter": encoded(asdict(value))}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    for kind, name in ((list, "list"), (tuple, "tuple")):
        if isinstance(value, kind):
            return {name: [encoded(entry) for entry in value]}
    if isinstance(value, (set, frozenset)):
        return {type(value).__name__: [encoded(entry) for entry in sorted(value)]}
    raise TypeError(f"{type(value).__name__} is no plain data")


def decoded(value: Any) -> Any:
    """The data again.

    raises    ValueError if it is none of `encoded`
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"{str(value)[:40]!r} is no data")
    [(kind, content)] = value.items()
    try:
        if kind == "dict":
            return {decoded(key): decoded(entry) for key, entry in content}
        if kind == "counter":
            return Counter(**decoded(content))
        if kind == "bytes":
            return bytes.fromhex(content)
        kinds = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
        return kinds[kind](decoded(entry) for entry in content)
    except (KeyError, TypeError):
        raise ValueError(f"{str(value)[:40]!r} is no data") from None

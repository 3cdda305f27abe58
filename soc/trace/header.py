"""The header of a trace: what is known of chip, program and run, as JSON; see soc.trace.reader."""

import json
from pathlib import Path
from typing import Any

MAGIC = b"PULPTRC1"
VERSION = 1
ALIGNMENT = 1 << 16
"""Bytes; the header and what comes before it fill a multiple of this."""
LENGTH_END = len(MAGIC) + 4

NEEDED = {
    "version": int,
    "harts": list,
    "initiators": list,
    "banks": int,
    "first_cycle": int,
    "complete": bool,
    "isa": str,
    "code": list,
    "symbols": list,
    "regions": dict,
    "lines": list,
}
"""Fields without which a header cannot be used, and their types."""
ROWS = {"symbols": (int, int, str), "lines": (int, str), "code": (int, str)}
"""What the elements of such a field are made of."""
LIMITS = {"banks": (1, 256), "first_cycle": (0, 1 << 62), "cycles": (0, 1 << 62)}
LIMITS |= {"events": (0, 1 << 62)}
"""The least and the most that a number can be."""


class TraceError(ValueError):
    """This file is not a trace that can be read. The command line shows it."""


def read_header(file: Path) -> tuple[dict[str, Any], int]:
    """The header of a trace, and where its events begin.

    raises    OSError, TraceError
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(LENGTH_END)
        if start[: len(MAGIC)] != MAGIC:
            raise TraceError(_foreign(start[: len(MAGIC)]))
        end = LENGTH_END + int.from_bytes(start[len(MAGIC) :], "little")
        if len(start) < LENGTH_END or end > size:
            raise TraceError(f"truncated: its header ends at byte {end}, the file at {size}")
        text = stream.read(end - LENGTH_END)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise TraceError("damaged: its header is not JSON") from None
    _check_header(header)
    return header, end


def _foreign(start: bytes) -> str:
    if not start:
        return "not a trace: the file is empty"
    if start[:-1] == MAGIC[:-1]:
        form = start[-1:].decode("ascii", "backslashreplace")
        return f"a trace of format {form}; this version of pulpsim reads format {VERSION}"
    return f"not a trace: it begins with {start!r}, not with {MAGIC!r}"


def _check_header(header: Any) -> None:
    if not isinstance(header, dict):
        raise TraceError("damaged: its header is not a JSON object")
    for name, kind in NEEDED.items():
        if not isinstance(header.get(name), kind):
            raise TraceError(f"damaged: its header has no {name!r} of type {kind.__name__}")
    for name in ("harts", "initiators"):
        if not all(isinstance(each, str) for each in header[name]):
            raise TraceError(f"damaged: {name!r} in its header are not names")
    if not all(map(str.isdecimal, header["regions"])):
        raise TraceError("damaged: 'regions' in its header has names without numbers")
    for name, kinds in ROWS.items():
        for row in header[name]:
            if not _fits(row, kinds):
                raise TraceError(f"damaged: {name!r} in its header has {row!s:.60}")
    if header["version"] != VERSION:
        raise TraceError(
            f"a trace of format {header['version']}; this version of pulpsim reads format {VERSION}"
        )
    _check_values(header)


def _check_values(header: dict[str, Any]) -> None:
    """Refuse numbers and texts that no recorder writes into a header and no reader can use."""
    from isa.extensions.profiles import profile_named

    for name, (least, most) in LIMITS.items():
        value = header.get(name, least)
        if value is not None and not (isinstance(value, int) and least <= value <= most):
            raise TraceError(f"damaged: its header has {name} {value!s:.40}")
    filters = header.get("filters") or []
    if not isinstance(filters, list) or not all(isinstance(each, str) for each in filters):
        raise TraceError(f"damaged: its header has filters {filters!s:.40}")
    if not all(isinstance(name, str) for name in header["regions"].values()):
        raise TraceError("damaged: 'regions' in its header are not names")
    try:
        profile_named(header["isa"])
        for _, digits in header["code"]:
            bytes.fromhex(digits)
    except ValueError as error:
        raise TraceError(f"damaged: its header has code that cannot be read: {error}") from None


def _fits(row: Any, kinds: tuple[type, ...]) -> bool:
    """Is it a list of addresses, sizes and names of these types?"""
    if not isinstance(row, list) or len(row) != len(kinds):
        return False
    return all(isinstance(v, kind) and _is_small(v) for v, kind in zip(row, kinds, strict=True))


def _is_small(value: Any) -> bool:
    return isinstance(value, str) or 0 <= value <= 1 << 32

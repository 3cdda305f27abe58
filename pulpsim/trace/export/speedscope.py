"""Flame graphs for speedscope.app: what each hart executes, and what it waits for there.

A stall is a frame of its own, as in [l1_contention], on top of the function that waits.
Source: speedscope's file-format-spec.ts, evented profiles.
"""

import json
from typing import BinaryIO

import numpy as np

from pulpsim.cli.terminal import one_line
from pulpsim.trace.calls import CHANGE, CallStacks
from pulpsim.trace.code import Code
from pulpsim.trace.export import text
from pulpsim.trace.selection import Selection
from soc.prelude.counters import CAUSES
from soc.trace.reader import Kind, Trace, taken

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
OPEN_STALL, CLOSE_STALL, OTHER = 2, 0, 1
"""What comes first within a cycle."""


def speedscope(trace: Trace, selection: Selection, stream: BinaryIO) -> None:
    """Write one profile for each hart with selected events."""
    code = Code(trace)
    stacks = CallStacks(code, len(trace.harts))
    changes, stalls = [np.zeros(0, CHANGE)], [np.zeros(0, CHANGE)]
    for part in selection.parts(trace):
        changes.append(stacks.changes(part))
        stalls.append(_stalls(part))
    ends = [int(rows["cycle"].max(initial=0)) for rows in (*changes, *stalls)]
    end = max(trace.cycles - trace.first_cycle, *ends)
    functions = np.concatenate([*changes, stacks.close(end)])
    waits = np.concatenate(stalls)
    waits["function"] += len(code.functions)
    for rows in (functions, waits):
        rows["cycle"] += trace.first_cycle
    _write(trace, code, functions, waits, end + trace.first_cycle, stream)


def _stalls(part: np.ndarray) -> np.ndarray:
    """Stalls as functions that begin and end; CAUSES number them."""
    rows = taken(part, part["kind"] == Kind.STALL)
    edges = np.zeros((rows.size, 2), CHANGE)
    edges["cycle"] = rows["cycle"][:, None]
    edges["cycle"][:, 1] += rows["b"]
    edges["hart"], edges["function"] = rows["hart"][:, None], rows["extra"][:, None]
    edges["is_begin"][:, 0] = True
    return edges.reshape(-1)


def _write(
    trace: Trace,
    code: Code,
    functions: np.ndarray,
    waits: np.ndarray,
    end: int,
    stream: BinaryIO,
) -> None:
    program = one_line(str(trace.header.get("program", "program")))
    names = [one_line(name) or "(no symbol)" for name in code.functions]
    frames = [{"name": name} for name in [*names, *(f"[{cause}]" for cause in CAUSES)]]
    head = {"$schema": SCHEMA, "name": program, "exporter": "pulpsim", "activeProfileIndex": 0}
    shared = json.dumps(head | {"shared": {"frames": frames}})[:-1]
    stream.write(f'{shared}, "profiles": ['.encode())
    start = ""
    for hart, name in enumerate(trace.harts):
        own = _nested(functions[functions["hart"] == hart], waits[waits["hart"] == hart])
        if not own.size:
            continue
        kind = {"type": "evented", "name": one_line(name), "unit": "none"}
        about = {**kind, "startValue": trace.first_cycle, "endValue": end}
        stream.write(f'{start}{json.dumps(about)[:-1]}, "events": ['.encode())
        stream.write(_events(own))
        stream.write(b"]}")
        start = ",\n"
    stream.write(b"]}\n")


def _nested(functions: np.ndarray, waits: np.ndarray) -> np.ndarray:
    """Both in one order in which they nest: functions change at issues, where no stall is."""
    rows = np.concatenate([functions, waits])
    order = np.full(rows.size, OTHER)
    order[functions.size :] = np.where(waits["is_begin"], OPEN_STALL, CLOSE_STALL)
    return rows[np.lexsort((order, rows["cycle"]))]


def _events(rows: np.ndarray) -> bytes:
    kinds = text.labels(["C", "O"])[rows["is_begin"].astype(int)]
    frames, cycles = text.decimal(rows["function"]), text.decimal(rows["cycle"])
    lines = text.joined('{"type":"', kinds, '","frame":', frames, ',"at":', cycles, "},\n")
    return text.written(lines)[:-2]

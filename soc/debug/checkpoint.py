"""Checkpoints: all that a simulation is at a cycle, and a simulation that goes on from there.

The clocked parts are arrays, which are copied. SimPy's processes cannot be: a checkpoint is taken
only while the host side is idle, so that no process of it is under way and no event is due, and
what its peripherals remember is plain data. A simulation that is made anew and gets both back is in
the same state. The event engine, all of whose parts are processes, has no checkpoints.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from soc.chip.state import ARRAYS, OF_THIS_RUN, PAGE, Packed, pack
from soc.console_text import ConsoleState
from soc.peripherals.platform import Platform
from soc.peripherals.timer import Counter
from soc.prelude.counters import CAUSES, COUNT, COUNTS
from soc.simulation import Simulation

Plain = dict[str, Any]


@dataclass(frozen=True)
class Host:
    """What a simulation remembers outside of its chip.

    parts         plain attributes of each part of the platform
    lines         of the console, where it is in the midst of some: a ConsoleState
    code          what soc.core.decode_cache remembers of what is decoded
    """

    parts: list[Plain]
    text: list[str]
    warnings: list[str]
    printed: int
    nulls: int
    extensions: frozenset[str]
    lines: ConsoleState
    code: Plain


@dataclass(frozen=True)
class Checkpoint:
    """A simulation at the start of a cycle; of the chip's arrays, without their pages of zeros."""

    cycle: int
    arrays: dict[str, Packed]
    host: Host


NOTES = ("recorder", "trace", "trace_sorted", "trace_places", *OF_THIS_RUN)
STATE = [name for name in ARRAYS if name not in NOTES]
"""Arrays that make up a chip: not what is noted of its run."""

EMPTY_AT_FIRST = ("code", "regions")
"""Arrays that are zeros, and large, in a simulation that has not begun."""


def is_idle(simulation: Simulation) -> bool:
    """Is nothing under way on the host side, so that a checkpoint would be whole?"""
    idle = simulation.env.peek() == float("inf") and simulation.end is None
    return simulation.engine == "compiled" and idle and not simulation.ending.faults


def checkpoint(simulation: Simulation) -> Checkpoint:
    """Copy a simulation that does not run and whose host side is idle."""
    arrays = {name: pack(getattr(simulation.chip, name)) for name in STATE if name != "code"}
    arrays["code"] = _packed_code(simulation)
    return Checkpoint(simulation.cycle, arrays, _host(simulation))


def _packed_code(simulation: Simulation) -> Packed:
    """The decoded rows: most rows are not, and to look at them all takes longer than the rest."""
    code = simulation.chip.code
    data = code.view(np.uint8)
    numbers: set[int] = set()
    for first, end in _rows_of_code(simulation):
        size = code.itemsize
        numbers.update(range(first * size // PAGE, -(-end * size // PAGE)))
    pages = np.zeros((len(numbers), PAGE), np.uint8)
    for page, number in zip(pages, sorted(numbers), strict=True):
        part = data[number * PAGE : (number + 1) * PAGE]
        page[: part.size] = part
    is_used = pages.view(np.uint64).any(axis=1)
    return Packed(code.size, np.array(sorted(numbers), np.int64)[is_used], pages[is_used])


def _rows_of_code(simulation: Simulation) -> list[tuple[int, int]]:
    """Rows that may be decoded, or have hints: those of the program's code, and of the harts."""
    base = int(simulation.chip.config[0]["code_base"])
    sections = [(part.address - base, part.size) for part in simulation.program.code]
    rows = [(max(0, start // 2), (start + size) // 2 + 1) for start, size in sections]
    of_harts = int(simulation.chip.config[0]["rows"]), simulation.chip.code.size
    return [*rows, *simulation.code.spans, of_harts]


def restore(kept: Checkpoint, simulation: Simulation) -> None:
    """Let a simulation of the same program on the same chip, not begun yet, be what was copied."""
    _let_be(simulation, kept.cycle, kept.host)
    for name, packed in kept.arrays.items():
        data = getattr(simulation.chip, name).view(np.uint8)
        if name not in EMPTY_AT_FIRST:
            data.fill(0)
        for number, page in zip(packed.numbers.tolist(), packed.pages, strict=True):
            place = data[number * PAGE : (number + 1) * PAGE]
            place[:] = page[: place.size]
    if simulation.is_recorded:
        _account(simulation)


def _account(simulation: Simulation) -> None:
    """Let trace points go on where the counters are: runs without a trace do not keep track."""
    harts, causes = simulation.chip.harts, [COUNTS.index(name) for name in CAUSES]
    counts = harts["counts"]
    harts["accounted"] = counts[:, COUNT.instructions] + counts[:, causes].sum(axis=1)
    harts["open"] = 0


def copy(simulation: Simulation, to: Simulation) -> None:
    """Let a simulation that has not begun be where this one is, whose host side is idle.

    NOTE: of the decoded code only what lies in the program's code or was decoded is looked at.
    """
    _let_be(to, simulation.cycle, _host(simulation))
    for name in STATE:
        if name != "code":
            getattr(to.chip, name).view(np.uint8)[:] = getattr(simulation.chip, name).view(np.uint8)
    for first, end in _rows_of_code(simulation):
        to.code.rows[first:end] = simulation.code.rows[first:end]


def _host(simulation: Simulation) -> Host:
    platform = simulation.platform
    return Host(
        [_plain(part) for part in host_parts(platform)] if platform else [],
        list(simulation.console.text),
        list(simulation.ending.warnings),
        simulation.console.printed,
        simulation.ending.nulls,
        simulation.extensions,
        simulation.console.state,
        deepcopy(simulation.code.remembered()),
    )


def _let_be(simulation: Simulation, cycle: int, host: Host) -> None:
    """Bring everything but the chip's arrays into a state."""
    if cycle:
        simulation.env.run(until=cycle)  # no one acts on the way: the clocked parts stand
    simulation.console.restore(host.text, host.printed, host.lines)
    ending = simulation.ending
    ending.warnings[:], ending.nulls = host.warnings, host.nulls
    simulation.use(host.extensions)
    vars(simulation.code).update(deepcopy(host.code))
    if simulation.platform:
        for part, state in zip(host_parts(simulation.platform), host.parts, strict=True):
            _remember(part, state)


def _remember(part: Any, state: Plain) -> None:
    """Let a part have these attributes. Tables stay what they are: some have defaults."""
    for name, value in deepcopy(state).items():
        table = getattr(part, name, None)
        if isinstance(table, dict):
            table.clear()
            table.update(value)
        else:
            setattr(part, name, value)


def host_parts(platform: Platform) -> Iterator[Any]:
    """The components of a platform that have state, in a fixed order."""
    yield platform
    yield from platform.targets.values()
    yield from platform.dma_ports.values()
    for part in platform.peripherals.values():
        yield part
        yield from getattr(part, "parts", tuple)()


def _plain(part: Any) -> Plain:
    return {name: deepcopy(value) for name, value in vars(part).items() if is_plain(value)}


def is_plain(value: Any) -> bool:
    """Is it data all through? Ports, handlers and what is the chip's or SimPy's are not."""
    if isinstance(value, dict):
        return all(is_plain(key) and is_plain(entry) for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_plain(entry) for entry in value)
    return value is None or isinstance(value, (bool, int, str, bytes, Counter))

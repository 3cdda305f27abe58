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

from soc.chip_state import ARRAYS, OF_THIS_RUN, PAGE, Packed, pack
from soc.peripherals.timer import Counter
from soc.platform import Platform
from soc.simulation import Simulation

Plain = dict[str, Any]


@dataclass(frozen=True)
class Host:
    """What a simulation remembers outside of its chip.

    parts         plain attributes of each part of the platform
    decoder       of the console's bytes, in the middle of a character
    code          what soc.code_memory remembers of what is decoded
    """

    parts: list[Plain]
    text: list[str]
    warnings: list[str]
    printed: int
    nulls: int
    extensions: frozenset[str]
    decoder: tuple[bytes, int]
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
    return simulation.engine == "compiled" and idle and not simulation.faults


def checkpoint(simulation: Simulation) -> Checkpoint:
    """Copy a simulation that does not run and whose host side is idle."""
    arrays = {name: pack(getattr(simulation.chip, name)) for name in STATE}
    return Checkpoint(simulation.cycle, arrays, _host(simulation))


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


def copy(simulation: Simulation, to: Simulation) -> None:
    """Let a simulation that has not begun be where this one is, whose host side is idle.

    NOTE: of the decoded code only what lies in the program's code or was decoded is looked at.
    """
    _let_be(to, simulation.cycle, _host(simulation))
    for name in STATE:
        if name != "code":
            getattr(to.chip, name).view(np.uint8)[:] = getattr(simulation.chip, name).view(np.uint8)
    base = int(simulation.chip.config[0]["code_base"])
    sections = [(part.address - base, part.size) for part in simulation.program.code]
    rows = [(max(0, start // 2), (start + size) // 2 + 1) for start, size in sections]
    of_harts = int(simulation.chip.config[0]["rows"]), simulation.chip.code.size
    for first, end in [*rows, *simulation.code.spans, of_harts]:
        to.code.rows[first:end] = simulation.code.rows[first:end]


def _host(simulation: Simulation) -> Host:
    platform = simulation.platform
    return Host(
        [_plain(part) for part in host_parts(platform)] if platform else [],
        list(simulation.text),
        list(simulation.warnings),
        simulation.printed,
        simulation.nulls,
        simulation.extensions,
        simulation.decoder.getstate(),
        deepcopy(simulation.code.remembered()),
    )


def _let_be(simulation: Simulation, cycle: int, host: Host) -> None:
    """Bring everything but the chip's arrays into a state."""
    if cycle:
        simulation.env.run(until=cycle)  # no one acts on the way: the clocked parts stand
    simulation.text[:], simulation.warnings[:] = host.text, host.warnings
    simulation.printed, simulation.nulls = host.printed, host.nulls
    simulation.use(host.extensions)
    simulation.decoder.setstate(host.decoder)
    vars(simulation.code).update(deepcopy(host.code))
    if simulation.platform:
        for part, state in zip(host_parts(simulation.platform), host.parts, strict=True):
            vars(part).update(deepcopy(state))


def host_parts(platform: Platform) -> Iterator[Any]:
    """The components of a platform that have state, in a fixed order."""
    yield platform
    yield platform.crossbar
    yield from platform.dma_ports.values()
    yield from platform.peripherals.values()


def _plain(part: Any) -> Plain:
    return {name: deepcopy(value) for name, value in vars(part).items() if is_plain(value)}


def is_plain(value: Any) -> bool:
    """Is it data all through? Ports, handlers and what is the chip's or SimPy's are not."""
    if isinstance(value, dict):
        return all(is_plain(key) and is_plain(entry) for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_plain(entry) for entry in value)
    return value is None or isinstance(value, (bool, int, str, Counter))

"""Comparison of a measurement on the RTL with the simulator: equal, or where it differs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

GROUPS = {
    "programs": "one core: instructions, hazards, random programs",
    "contention": "eight cores: banks, barriers, event unit, a generator in the DMA's place",
    "kernels": "matrix products and compiled C on one core and on eight",
    "dma": "transfers of MCHAN: control ports, bursts, accesses to L1",
    "icache": "loops and products through the private and the shared instruction cache",
    "controller": "the fabric controller: its fetch and data at L2's ports, registers, the cluster",
    "l2": "loads, stores and transfers on the whole chip",
}


@dataclass(frozen=True)
class Deviation:
    """Numbers that belong together: a region, a transfer, the iterations of a loop.

    differences    "region 3.cycles.0: 12, RTL 13"
    error          the largest of its cycles, as a fraction of the RTL's
    """

    differences: tuple[str, ...] = ()
    error: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """A measured run and the simulator's.

    rtl_cycles, cycles    of the whole run
    rtl_waits, waits      requests to L1 that had to wait, cycles of all initiators together
    parts                 regions, transfers or loops
    whole                 what belongs to none: exit codes, the memory left
    """

    rtl_cycles: int
    cycles: int
    parts: tuple[Deviation, ...]
    rtl_waits: int = 0
    waits: int = 0
    whole: Deviation = Deviation()

    @property
    def exact(self) -> int:
        """Parts without any difference."""
        return sum(not part.differences for part in self.parts)

    @property
    def error(self) -> float:
        """The largest error of a part's cycles or of the whole run's, as a fraction."""
        whole = error_of(self.rtl_cycles, self.cycles)
        return max([whole, *(part.error for part in self.parts)])

    @property
    def differences(self) -> list[str]:
        """All that differs."""
        return [text for part in (*self.parts, self.whole) for text in part.differences]


@dataclass(frozen=True)
class Measurement:
    """A run that was measured, and the way to repeat it.

    group     a key of GROUPS
    cycles    of the RTL
    repeat    engine -> comparison
    engines   that can repeat it
    """

    group: str
    name: str
    configuration: str
    cycles: int
    repeat: Callable[[str], Comparison]
    engines: tuple[str, ...] = ("compiled", "event")

    @property
    def title(self) -> str:
        """Name and configuration."""
        return f"{self.name} {self.configuration}".strip()


def compared(name: str, rtl: Any, simulated: Any, *, cycles: str = "cycles") -> Deviation:
    """A part from its numbers, in dicts and lists of the same form.

    cycles    the key of its cycles, where it has some
    """
    texts = tuple(differences(name, rtl, simulated))
    has_cycles = isinstance(rtl, dict) and cycles in rtl
    return Deviation(
        texts, error_of(rtl[cycles], simulated[cycles]) if has_cycles and texts else 0.0
    )


def differences(place: str, rtl: Any, simulated: Any) -> Iterator[str]:
    """Each number that differs, with its place."""
    if isinstance(rtl, dict):
        for key, value in rtl.items():
            yield from differences(f"{place}.{key}", value, simulated.get(key))
    elif isinstance(rtl, list) and isinstance(simulated, list) and len(rtl) == len(simulated):
        for index, (one, other) in enumerate(zip(rtl, simulated, strict=True)):
            yield from differences(f"{place}.{index}", one, other)
    elif rtl != simulated:
        yield f"{place}: {simulated!r:.60}, RTL {rtl!r:.60}"


def error_of(rtl: int | list, simulated: int | list) -> float:
    """The largest difference between cycles, as a fraction of the RTL's."""
    pairs = zip(_flat(rtl), _flat(simulated), strict=False)
    return max((abs(one - other) / max(one, 1) for one, other in pairs), default=0.0)


def _flat(numbers: int | list) -> Iterable[int]:
    if not isinstance(numbers, list):
        return [numbers]
    return [number for entry in numbers for number in _flat(entry)]

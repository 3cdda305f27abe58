"""The event unit's view of all (0x10200800): the bus's side of a clocked part."""

from collections.abc import Callable
from functools import partial

import numpy as np
from simpy import Environment

from soc.aot.units import eu_shared_exists, eu_shared_load, eu_shared_store
from soc.event_unit.state import STALLED
from soc.peripherals.bus import BusError, later


class SharedEventUnit:
    """Forwards loads and stores to the state that the compiled loop clocks.

    A store that the one before it holds up is repeated in the next cycle; others wait after it.

    waiting    offsets and values of stores that are not done, the first of them tried each cycle
    """

    def __init__(self, env: Environment, eu: np.void):
        self.env, self.eu = env, eu
        self.waiting: list[tuple[int, int]] = []
        self.exists, self.load, self.store = (
            link.of(eu) for link in (eu_shared_exists, eu_shared_load, eu_shared_store)
        )

    def read(self, offset: int, size: int) -> int:
        return self.loading(offset)() >> 8 * (offset & 3) & (1 << 8 * size) - 1

    def write(self, offset: int, value: int, size: int) -> None:
        self.storing(offset)((value & (1 << 8 * size) - 1) << 8 * (offset & 3))

    def loading(self, offset: int) -> Callable[[], int]:
        """What a load from an offset calls."""
        self._check(offset)
        return partial(self._load, offset)

    def storing(self, offset: int) -> Callable[[int], None]:
        """What a store to an offset calls, with its 32 bits."""
        self._check(offset)
        return partial(self._store, offset)

    def _load(self, offset: int) -> int:
        value: int = self.load(offset, int(self.env.now))
        return value

    def _store(self, offset: int, value: int) -> None:
        self.waiting.append((offset, value))
        if len(self.waiting) == 1:
            self._store_first()

    def _store_first(self) -> None:
        if self.store(*self.waiting[0], int(self.env.now)) != STALLED:
            del self.waiting[0]
        if self.waiting:
            later(self.env, 1, self._store_first)

    def _check(self, offset: int) -> None:
        if not self.exists(offset & 0x7FC):
            cores, barriers = self.eu["cores"], self.eu["barriers"]
            raise BusError(
                f"event unit: nothing at offset {offset:#05x} of the shared view; this chip has "
                f"{cores} cores and {barriers} barriers"
            )

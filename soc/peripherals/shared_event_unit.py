"""The event unit's view of all (0x10200800): the bus's side of a clocked part."""

import numpy as np
from simpy import Environment

from soc.event_unit_state import STALLED
from soc.links import eu_shared_exists, eu_shared_load, eu_shared_store
from soc.peripherals.bus import BusError
from soc.peripherals.later import later


class SharedEventUnit:
    """Forwards loads and stores to the state that the compiled loop clocks.

    A store that meets a core's store to the same registers is repeated in the next cycle.
    """

    def __init__(self, env: Environment, eu: np.void):
        self.env, self.eu = env, eu

    def read(self, offset: int, size: int) -> int:
        self._check(offset)
        value = int(eu_shared_load(self.eu, offset, self.env.now))
        return value >> 8 * (offset & 3) & (1 << 8 * size) - 1

    def write(self, offset: int, value: int, size: int) -> None:
        self._check(offset)
        self._store(offset, (value & (1 << 8 * size) - 1) << 8 * (offset & 3))

    def _store(self, offset: int, value: int) -> None:
        if eu_shared_store(self.eu, offset, value, self.env.now) == STALLED:
            later(self.env, 1, self._store, offset, value)

    def _check(self, offset: int) -> None:
        if not eu_shared_exists(self.eu, offset & 0x7FC):
            cores, barriers = self.eu["cores"], self.eu["barriers"]
            raise BusError(
                f"event unit: nothing at offset {offset:#05x} of the shared view; this chip has "
                f"{cores} cores and {barriers} barriers"
            )

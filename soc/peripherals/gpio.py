"""General-purpose pins: outputs, sampled inputs, events of edges.

Source: apb_gpio.sv, read: its stages are known, but no program was measured on RTL. pulp's
tb_pulp.sv wires pin i to pin i + 16.
"""

from collections.abc import Callable

from simpy import Environment

from soc.address_map.registers import GPIO, PINS
from soc.peripherals.bus import later
from soc.peripherals.register_block import WORD, RegisterBlock, loads, stores

NOTICED = 3
"""Cycles from a store to the edge that it makes: OUT, then two stages of the synchroniser."""

SAMPLED = 4
"""Cycles from a store to the level in IN: one more register, with which edges are compared."""

GROUP = 4
"""Pins whose input registers share a clock, which runs while any of them is enabled."""

HALF = PINS // 2
LOW = (1 << HALF) - 1

FALLING, RISING, BOTH = range(3)


class Gpio(RegisterBlock, write_only=("OUT_SET", "OUT_CLEAR"), read_only=("IN",)):
    """Two banks of 32 pins. A pin is low that is neither an output nor wired to one.

    is_looped    pin i of a bank is wired to pin i + 16 of it

    Ports
        warn     out   see RegisterBlock
        event    out   there was an edge in this cycle at a pin that is to tell
        seen     out   bank, levels that its inputs have after two stages, from this cycle on

    Per bank, `IN` is what was sampled last; of groups of four without an enabled pin, what was
    before.
    """

    def __init__(
        self,
        env: Environment,
        warn: Callable[[str], None],
        event: Callable[[], None],
        is_looped: bool = False,
        seen: Callable[[int, int], None] = lambda bank, levels: None,
    ):
        super().__init__("gpio", GPIO, warn)
        self.env, self.event, self.is_looped, self.seen = env, event, is_looped, seen

    def levels(self, bank: int) -> int:
        """Level of each pin of a bank in this cycle, a bit each."""
        driven = self.word("OUT", bank) & self.word("DIRECTION", bank)
        if not self.is_looped:
            return driven
        return driven | driven >> HALF | (driven & LOW) << HALF

    @stores("DIRECTION", "ENABLE", "OUT")
    def _drive(self, name: str, bank: int, value: int) -> None:
        self.put(name, bank, value)
        levels = self.levels(bank)
        later(self.env, NOTICED, self._notice, bank, levels)
        later(self.env, SAMPLED, self._sample, bank, levels)

    @stores("OUT_SET")
    def _set(self, name: str, bank: int, value: int) -> None:
        self._drive("OUT", bank, self.word("OUT", bank) | value)

    @stores("OUT_CLEAR")
    def _clear(self, name: str, bank: int, value: int) -> None:
        self._drive("OUT", bank, self.word("OUT", bank) & ~value)

    @loads("INTERRUPT_STATUS")
    def _status(self, name: str, bank: int) -> int:
        status = self.word(name, bank)
        self.put(name, bank, 0)
        return status & WORD

    def _notice(self, bank: int, levels: int) -> None:
        """Levels that are about to reach IN are compared with it."""
        before, now = self.word("IN", bank), self._clocked(bank, levels)
        edges = self._told(bank, RISING) & now & ~before | self._told(bank, FALLING) & before & ~now
        if edges:
            self.put("INTERRUPT_STATUS", bank, self.word("INTERRUPT_STATUS", bank) | edges)
            self.event()
        self.seen(bank, now)

    def _sample(self, bank: int, levels: int) -> None:
        self.put("IN", bank, self._clocked(bank, levels))

    def _clocked(self, bank: int, levels: int) -> int:
        """What the input registers take: `levels` where their clocks run."""
        enabled, runs = self.word("ENABLE", bank), 0
        for first in range(0, PINS, GROUP):
            group = (1 << GROUP) - 1 << first
            runs |= group if enabled & group else 0
        return self.word("IN", bank) & ~runs | levels & runs

    def _told(self, bank: int, edge: int) -> int:
        """Pins that are to tell of an edge of this kind."""
        types = self.word("EDGES_HIGH", bank) << PINS | self.word("EDGES_LOW", bank)
        kinds = (types >> 2 * pin & 3 for pin in range(PINS))
        chosen = sum(1 << pin for pin, kind in enumerate(kinds) if kind in (edge, BOTH))
        return chosen & self.word("INTERRUPT_ENABLE", bank) & self.word("ENABLE", bank)

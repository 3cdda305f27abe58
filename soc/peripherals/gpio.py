"""General-purpose pins: outputs, sampled inputs, events of edges.

Source: apb_gpio 0e9f142 (apb_gpio.sv), read; its cycles are not measured. pulp's tb_pulp.sv wires
pin i to pin i + 16.
"""

from collections.abc import Callable

from simpy import Environment

from soc.address_map.registers import GPIO, PINS
from soc.peripherals.bus import later
from soc.peripherals.register_block import WORD, RegisterBlock, loads, stores

SAMPLING = 3
"""Cycles from a store to the level in IN: OUT, then two stages of the synchroniser."""

HALF = PINS // 2
LOW = (1 << HALF) - 1

FALLING, RISING, BOTH = range(3)


class Gpio(RegisterBlock, write_only=("OUT_SET", "OUT_CLEAR"), read_only=("IN",)):
    """Two banks of 32 pins. A pin is low that is neither an output nor wired to one.

    is_looped    pin i of a bank is wired to pin i + 16 of it

    Ports
        warn     out   see RegisterBlock
        event    out   there was an edge in this cycle at a pin that is to tell

    Per bank, `IN` is what was sampled last; of pins whose ENABLE is 0, what was before.
    """

    def __init__(
        self,
        env: Environment,
        warn: Callable[[str], None],
        event: Callable[[], None],
        is_looped: bool = False,
    ):
        super().__init__("gpio", GPIO, warn)
        self.env, self.event, self.is_looped = env, event, is_looped

    def levels(self, bank: int) -> int:
        """Level of each pin of a bank in this cycle, a bit each."""
        driven = self.word("OUT", bank) & self.word("DIRECTION", bank)
        if not self.is_looped:
            return driven
        return driven | driven >> HALF | (driven & LOW) << HALF

    @stores("DIRECTION", "ENABLE", "OUT")
    def _drive(self, name: str, bank: int, value: int) -> None:
        self.put(name, bank, value)
        later(self.env, SAMPLING, self._sample, bank, self.levels(bank))

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

    def _sample(self, bank: int, levels: int) -> None:
        """What the pins' levels were reaches IN."""
        before, sampled = self.word("IN", bank), self.word("ENABLE", bank)
        now = before & ~sampled | levels & sampled
        self.put("IN", bank, now)
        edges = self._told(bank, RISING) & now & ~before | self._told(bank, FALLING) & before & ~now
        if edges:
            self.put("INTERRUPT_STATUS", bank, self.word("INTERRUPT_STATUS", bank) | edges)
            self.event()

    def _told(self, bank: int, edge: int) -> int:
        """Pins that are to tell of an edge of this kind."""
        types = self.word("EDGES_HIGH", bank) << PINS | self.word("EDGES_LOW", bank)
        kinds = (types >> 2 * pin & 3 for pin in range(PINS))
        chosen = sum(1 << pin for pin, kind in enumerate(kinds) if kind in (edge, BOTH))
        return chosen & self.word("INTERRUPT_ENABLE", bank)

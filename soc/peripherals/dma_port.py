"""A control port of the DMA on the peripheral interconnect."""

from collections.abc import Callable, Generator

from simpy import Environment, Event

from soc.aot.units import ask, is_idle
from soc.chip.state import Chip


class DmaPort:
    """The bus's side of a clocked part.

    Ports
        event      out   0 event, 1 interrupt: a transfer of this port has ended
        changed    out   called when the clocked part has a request
    """

    def __init__(
        self,
        env: Environment,
        chip: Chip,
        number: int,
        event: Callable[[int], None],
        changed: Callable[[], None],
    ):
        self.env, self.chip, self.number = env, chip, number
        self.event, self.changed = event, changed
        self.is_watched = False

    def access(self, write: bool, offset: int, value: int) -> Generator[Event, None, int]:
        """Ask until the port grants; return what a load reads, in the cycle after the grant."""
        dma, wheel = self.chip.dma[0], self.chip.wheel[0]
        ask(dma, self.number, write, offset, value)
        wheel["dma_busy"] = max(1, wheel["dma_busy"])
        self.changed()
        while int(dma["asked"]) >> self.number & 1:
            yield self.env.timeout(1)
        if write and not self.is_watched:
            self.is_watched = True
            self.env.process(self._watch())
        return int(dma["port"][self.number]["reply"])

    def _watch(self) -> Generator[Event, None, None]:
        """Pass the port's event lines on, while the DMA moves."""
        dma = self.chip.dma[0]
        while True:
            lines = [int(dma[name]) >> self.number & 1 for name in ("event", "interrupt")]
            for line in range(2):
                if lines[line]:
                    self.event(line)
            if is_idle(dma) and not any(lines):
                self.is_watched = False
                return
            yield self.env.timeout(1)

"""The fabric controller's interrupt controller (FC ITC).

Source: apb_interrupt_cntrl.sv; pulp-runtime archi/itc/itc_v1.h.
"""

from collections.abc import Callable

from simpy import Environment

from soc.address_map.events import FABRIC_EVENTS, event_line
from soc.address_map.registers import INTERRUPT_CONTROLLER
from soc.chip.peripherals_spec import PeripheralsSpec
from soc.peripherals.bus import later
from soc.peripherals.reference_clock import edge
from soc.peripherals.register_block import RegisterBlock, loads, stores

NONE = -1
ASSIGN = ("MASK", "STATUS", "ACK")
SET = tuple(f"{name}_SET" for name in ASSIGN)
CLEAR = tuple(f"{name}_CLEAR" for name in ASSIGN)
SOC_EVENT = 1 << event_line(FABRIC_EVENTS, "soc")
CLOCK_EDGE = 1 << event_line(FABRIC_EVENTS, "reference_clock")


class InterruptController(RegisterBlock, write_only=(*SET, *CLEAR), read_only=("FIFO",)):
    """Collects events in STATUS and asks for the highest one of MASK.

    Ports
        warn         out   see RegisterBlock
        interrupt    out   line that the core is asked to take, or NONE; one cycle after its cause
        room         out   called when an event has been taken out of the FIFO
        set_event, push_soc_event, take     in

    State besides: `seen`, the cycle up to which STATUS knows the edges of the reference clock;
    `is_clock_due`, an alarm is set for the next one.
    """

    def __init__(
        self,
        env: Environment,
        spec: PeripheralsSpec,
        warn: Callable[[str], None],
        interrupt: Callable[[int], None],
    ):
        super().__init__("interrupt_controller", INTERRUPT_CONTROLLER, warn)
        self.env, self.depth, self.interrupt = env, spec.interrupt_fifo, interrupt
        self.period = spec.reference_period
        self.room: Callable[[], None] = lambda: None
        self.fifo: list[int] = []
        self.asked = NONE
        self.seen = 0
        self.is_clock_due = False

    def set_event(self, line: int) -> None:
        """An event line is active in this cycle."""
        self._change("STATUS", self._held("STATUS") | 1 << line)

    def has_room(self) -> bool:
        """Can the FIFO take an event of the SoC?"""
        return len(self.fifo) < self.depth

    def push_soc_event(self, number: int) -> bool:
        """Offer an event of the SoC. False: the FIFO is full.

        It is valid one cycle later, and sets its line in STATUS in the next.
        """
        if not self.has_room():
            return False
        self.fifo.append(number)
        later(self.env, 1, self._note_soc_event)
        return True

    def _note_soc_event(self) -> None:
        if self.fifo:
            self._change("STATUS", self._held("STATUS") | SOC_EVENT)

    def take(self, line: int) -> None:
        """The core takes an interrupt."""
        self.put("ACK", 0, self.word("ACK") | 1 << line)
        self._change("STATUS", self._held("STATUS") & ~(1 << line))

    @loads("STATUS")
    def _load_status(self, name: str, index: int) -> int:
        return self._held(name)

    @stores(*ASSIGN)
    def _assign(self, name: str, index: int, value: int) -> None:
        self._held(name)
        self._change(name, value)

    @stores(*SET)
    def _set(self, name: str, index: int, value: int) -> None:
        name = name.removesuffix("_SET")
        self._change(name, self._held(name) | value)

    @stores(*CLEAR)
    def _clear(self, name: str, index: int, value: int) -> None:
        name = name.removesuffix("_CLEAR")
        self._change(name, self._held(name) & ~value)

    def _change(self, name: str, value: int) -> None:
        """Change a register. Clearing the SoC event takes the oldest one out of the FIFO."""
        if name == "STATUS" and self.fifo and not value & SOC_EVENT:
            self.put("FIFO", 0, self.fifo.pop(0))
            value |= SOC_EVENT if self.fifo else 0
            self.room()
        self.put(name, 0, value)
        self._await_edge()
        later(self.env, 1, self._ask)

    def _held(self, name: str) -> int:
        """What a register holds in this cycle; STATUS with the edges of the reference clock."""
        now = int(self.env.now)
        if name == "STATUS" and edge(self.seen, self.period) <= now:
            self.put(name, 0, self.word(name) | CLOCK_EDGE)
        if name == "STATUS":
            self.seen = now
        return self.word(name)

    def _await_edge(self) -> None:
        """Let the next edge of the reference clock ask, if it may and has not."""
        may_ask = self.word("MASK") & ~self.word("STATUS") & CLOCK_EDGE
        if may_ask and not self.is_clock_due:
            self.is_clock_due = True
            now = int(self.env.now)
            later(self.env, edge(now, self.period) - now, self._tick)

    def _tick(self) -> None:
        self.is_clock_due = False
        self._change("STATUS", self._held("STATUS"))

    def _ask(self) -> None:
        pending = self.word("STATUS") & self.word("MASK")
        line = pending.bit_length() - 1
        if line != self.asked:
            self.asked = line
            self.interrupt(line)

"""The SoC event unit: numbered events of peripherals to the fabric controller and the cluster.

Source: pulp_soc rtl/pulp_soc/soc_event_generator.sv, soc_event_queue.sv, soc_event_arbiter.sv.
"""

from collections.abc import Callable

from simpy import Environment

from soc.address_map.events import REFERENCE_CLOCK_EVENT
from soc.address_map.registers import SOC_EVENTS
from soc.chip.peripherals_spec import PeripheralsSpec
from soc.peripherals.bus import later
from soc.peripherals.reference_clock import rising_edge
from soc.peripherals.register_block import WORD, RegisterBlock, loads, stores

MASKS = ("FC_MASK", "CLUSTER_MASK", "PERIPHERAL_MASK")


class SocEvents(RegisterBlock, write_only=("EVENT",), read_only=("ERROR",)):
    """Delivers one event per cycle, round robin, to all whose masks let it pass, at once.

    Where one of them has no room, it is offered again in the next cycle, and everybody waits.

    Ports
        warn         out   see RegisterBlock
        fabric       out   number -> accepted
        cluster      out   the same
        peripherals  out   number; they always take it
        has_room     out   can the fabric controller take one?
        lost         out   called when an event is lost
        trigger      in    a peripheral's event
        go_on        in    the fabric controller has room again

    State: `queued`, events of each number that wait; `last`, the number delivered last;
    `is_clock_due`, an alarm is set for the reference clock's next rising edge.
    """

    def __init__(
        self,
        env: Environment,
        spec: PeripheralsSpec,
        warn: Callable[[str], None],
        fabric: Callable[[int], bool],
        cluster: Callable[[int], bool],
        has_room: Callable[[], bool] = lambda: True,
        lost: Callable[[], None] = lambda: None,
        peripherals: Callable[[int], None] = lambda _: None,
    ):
        super().__init__("soc_events", SOC_EVENTS, warn)
        self.env, self.spec = env, spec
        self.fabric, self.cluster = fabric, cluster
        self.has_room, self.lost, self.peripherals = has_room, lost, peripherals
        self.queued: dict[int, int] = {}
        self.last = -1
        self.is_due = False  # the arbiter chooses in a cycle to come
        self.is_clock_due = False

    def trigger(self, number: int) -> None:
        """Queue an event. One too many of a number is lost and noted in ERROR."""
        if self.queued.get(number, 0) == self.spec.event_queue:
            index, bit = divmod(number, 32)
            self.put("ERROR", index, self.word("ERROR", index) | 1 << bit)
            self.lost()
            text = f"event {number} is lost: {self.spec.event_queue} of it wait"
            self.warn_once(text, "lost")
            return
        self.queued[number] = self.queued.get(number, 0) + 1
        self.go_on()

    def go_on(self) -> None:
        """Let the arbiter choose in the next cycle, if anything waits."""
        if self.queued and not self.is_due:
            self.is_due = True
            later(self.env, 1, self._deliver)

    def _is_masked(self, mask: str, number: int) -> bool:
        index, bit = divmod(number, 32)
        return bool(self.word(mask, index) >> bit & 1)

    def _deliver(self) -> None:
        """Deliver the next number after the last one that waits, if all can take it."""
        self.is_due = False
        number = min(self.queued, key=lambda number: (number <= self.last, number))
        to_fabric = not self._is_masked("FC_MASK", number)
        if to_fabric and not self.has_room():
            return  # go_on is called when there is some
        if not self._is_masked("CLUSTER_MASK", number) and not self.cluster(number):
            self.go_on()
            return
        if to_fabric:
            self.fabric(number)
        if not self._is_masked("PERIPHERAL_MASK", number):
            self.peripherals(number)
        self.last = number
        self.queued[number] -= 1
        if not self.queued[number]:
            del self.queued[number]
        self.go_on()

    @stores(*MASKS)
    def _store_mask(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value)
        self._await_edge()

    def _await_edge(self) -> None:
        """Let the reference clock's next rising edge be an event, if a mask lets it pass."""
        if self.is_clock_due or all(self._is_masked(m, REFERENCE_CLOCK_EVENT) for m in MASKS):
            return
        self.is_clock_due = True
        now = int(self.env.now)
        later(self.env, rising_edge(now, self.spec.reference_period) - now, self._tick)

    def _tick(self) -> None:
        self.is_clock_due = False
        self.trigger(REFERENCE_CLOCK_EVENT)
        self._await_edge()

    @stores("EVENT")
    def _trigger_some(self, name: str, index: int, value: int) -> None:
        for event in range(self.spec.software_events):
            if value >> event & 1:
                self.trigger(self.spec.first_software_event + event)

    @loads("ERROR")
    def _errors(self, name: str, index: int) -> int:
        errors = self.word(name, index)
        self.put(name, index, 0)
        return errors & WORD

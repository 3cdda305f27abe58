"""The SoC event unit: numbered events of peripherals to the fabric controller and the cluster.

Source: pulp_soc rtl/pulp_soc/soc_event_generator.sv, soc_event_queue.sv. The RTL serves waiting
events round robin, here they are served in the order of their arrival.
"""

from collections import Counter
from collections.abc import Callable, Generator

from simpy import Environment, Event, Store

from soc.address_map.registers import SOC_EVENTS
from soc.chip.peripherals_spec import PeripheralsSpec
from soc.peripherals.register_block import RegisterBlock, loads, stores


class SocEvents(RegisterBlock, write_only=("EVENT",), read_only=("ERROR",)):
    """Delivers one event per cycle to everybody whose mask lets it pass.

    Ports
        warn         out   see RegisterBlock
        fabric       out   number -> accepted; offered again every cycle until it is
        cluster      out   the same
        trigger      in    a peripheral's event
    """

    def __init__(
        self,
        env: Environment,
        spec: PeripheralsSpec,
        warn: Callable[[str], None],
        fabric: Callable[[int], bool],
        cluster: Callable[[int], bool],
    ):
        super().__init__("soc_events", SOC_EVENTS, warn)
        self.env, self.spec = env, spec
        self.fabric, self.cluster = fabric, cluster
        self.queue = Store(env)
        self.queued: Counter[int] = Counter()
        env.process(self._deliver())

    def trigger(self, number: int) -> None:
        """Queue an event. One too many of a number is lost and noted in ERROR."""
        if self.queued[number] == self.spec.event_queue:
            index, bit = divmod(number, 32)
            self.put("ERROR", index, self.word("ERROR", index) | 1 << bit)
            return
        self.queued[number] += 1
        self.queue.put(number)

    def _deliver(self) -> Generator[Event, int, None]:
        while True:
            number = yield self.queue.get()
            yield self.env.timeout(1)
            for mask, offer in (("FC_MASK", self.fabric), ("CLUSTER_MASK", self.cluster)):
                index, bit = divmod(number, 32)
                passes = not self.word(mask, index) >> bit & 1
                while passes and not offer(number):
                    yield self.env.timeout(1)
            self.queued[number] -= 1

    @stores("EVENT")
    def _trigger_some(self, name: str, index: int, value: int) -> None:
        for event in range(self.spec.software_events):
            if value >> event & 1:
                self.trigger(self.spec.first_software_event + event)

    @loads("ERROR")
    def _errors(self, name: str, index: int) -> int:
        errors = self.word(name, index)
        self.put(name, index, 0)
        return errors

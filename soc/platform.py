"""Wiring of the peripherals: SimPy components around the clocked parts, on one bus per master."""

from collections.abc import Callable, Generator
from functools import cache, partial

from simpy import Environment, Event

from soc.chip_state import Chip
from soc.decode import STORE, WIDTH
from soc.links import (
    answer_of_peripheral,
    ask,
    eu_push_soc_event,
    eu_set_event,
    flush_icache,
    is_idle,
    raise_interrupt,
    start_hart,
    stored,
    switch_icache,
)
from soc.peripherals.bus import Bus, Decoder, Peripheral, Peripherals
from soc.peripherals.cluster_control import ClusterControl, cluster_configuration
from soc.peripherals.console import Console
from soc.peripherals.crossbar import Crossbar
from soc.peripherals.fll import Fll
from soc.peripherals.icache_control import IcacheControl
from soc.peripherals.interrupt_controller import InterruptController
from soc.peripherals.register_block import RegisterBlock
from soc.peripherals.shared_event_unit import SharedEventUnit
from soc.peripherals.soc_control import SocControl
from soc.peripherals.soc_events import SocEvents
from soc.peripherals.timer import Timer
from soc.registers import (
    CLUSTER_EVENTS,
    DEBUG,
    FABRIC_EVENTS,
    FABRIC_ICACHE_CONTROL,
    GPIO,
    ICACHE_CONTROL,
    PMU,
    UDMA,
    Kind,
    Master,
    event_line,
    memory_map,
)
from soc.spec import SocSpec

START_CYCLES = 2
"""From fetch enable to the first issue of a core: its first fetch (RI5CY, measured: 2 + 1)."""

DMA_PORTS = {"dma_shared": 8, "dma_fabric": 9}
"""Control ports of the DMA by their regions: the cluster's, the fabric controller's."""

FLLS = ("fll_soc", "fll_peripheral", "fll_cluster")

RESPONSE = 2
"""Cycles from a peripheral's taking an access to the grant that the core sees: the answer, then the
grant (data_periph_demux.sv: TRANS_PENDING, TRANS_GRANTED)."""


@cache
def decoders(l1_size: int, l2_size: int) -> tuple[Decoder, Decoder]:
    """Of the cores' accesses, and of the fabric controller's. Sizes in bytes."""
    regions = memory_map(l1_size, l2_size)
    return Decoder(regions, Master.CORE), Decoder(regions, Master.FABRIC)


class DmaPort:
    """A control port of the DMA on the peripheral interconnect: the bus's side of a clocked part.

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
        """Ask until the port grants; return what a load reads, in the cycle behind the grant."""
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


class Platform:
    """The peripherals of one chip, and the requests of harts to them.

    Ports
        exit        out   exit code
        console     out   byte
        warn        out   a sentence
        changed     out   called when something here has changed the clocked parts
    """

    def __init__(
        self,
        env: Environment,
        spec: SocSpec,
        chip: Chip,
        exit: Callable[[int], None],
        console: Callable[[int], None],
        warn: Callable[[str], None],
    ):
        self.env, self.spec, self.chip = env, spec, chip
        self.exit, self.warn = exit, warn
        self.changed: Callable[[], None] = lambda: None
        self.enabled = 0
        self.crossbar = Crossbar(env)
        self.dma_ports = {
            name: DmaPort(env, chip, number, self._dma_event(name), lambda: self.changed())
            for name, number in DMA_PORTS.items()
        }
        self.interrupts = InterruptController(
            env, spec.peripherals, warn, self._interrupt_controller
        )
        self.control = self._cluster_control()
        self.peripherals = Peripherals(self._makers(console))
        cores, controller = decoders(spec.l1.size, spec.l2.size)
        self.core_bus = Bus(cores, self.peripherals)
        self.controller_bus = Bus(controller, self.peripherals)

    def _makers(self, console: Callable[[int], None]) -> dict[str, Callable[[], Peripheral]]:
        """How to make each peripheral: soc.peripherals.bus makes what is accessed."""
        env, spec, warn = self.env, self.spec, self.warn
        blocks = {"gpio": GPIO, "udma": UDMA, "pmu": PMU, "debug": DEBUG}
        blocks |= dict.fromkeys(DMA_PORTS, PMU)
        return {
            "cluster_control": lambda: self.control,
            "cluster_timer": lambda: self._timer("cluster_timer", self._cluster_event),
            "event_unit_shared": lambda: SharedEventUnit(env, self.chip.event_unit[0]),
            "cluster_icache": lambda: IcacheControl(
                "cluster_icache",
                ICACHE_CONTROL,
                warn,
                self._enable_icache,
                lambda: self._flush_icache(True),
                lambda: self._flush_icache(False),
            ),
            "soc_control": lambda: SocControl(spec.cores, warn, self.exit, self.control.enable_all),
            "soc_events": lambda: SocEvents(
                env,
                spec.peripherals,
                warn,
                self.interrupts.push_soc_event,
                self._cluster_soc_event,
            ),
            "fabric_icache": lambda: IcacheControl(
                "fabric_icache", FABRIC_ICACHE_CONTROL, warn, lambda _: None, lambda: None
            ),
            "interrupt_controller": lambda: self.interrupts,
            "fabric_timer_0": lambda: self._timer("fabric_timer_0", self._fabric_event),
            "fabric_timer_1": lambda: self._timer("fabric_timer_1", lambda line: None),
            "stdout": lambda: Console(warn, lambda byte, cluster, core: console(byte)),
            **{name: partial(RegisterBlock, name, block, warn) for name, block in blocks.items()},
            **{name: partial(Fll, name, warn) for name in FLLS},
        }

    def _cluster_control(self) -> ClusterControl:
        spec = self.spec
        return ClusterControl(
            spec.cores,
            cluster_configuration(spec.cores, spec.l1.size, spec.l2.size, spec.icache.shared_size),
            self.warn,
            self._fetch_enable,
            lambda _: None,
            lambda _: None,
        )

    def _timer(self, name: str, event: Callable[[int], None]) -> Timer:
        low = event_line(CLUSTER_EVENTS, "timer")
        return Timer(
            name,
            self.env,
            self.spec.peripherals,
            self.warn,
            lambda: event(low),
            lambda: event(low + 1),
        )

    def serve(self, h: int) -> Generator[Event, None, None]:
        """Carry out a hart's request to a peripheral: it takes place as its grant comes back.

        raises    BusError if nothing answers at the address
        """
        chip = self.chip
        hart = chip.harts[h]
        row = chip.code[int(hart["row"])]
        address = int(hart["address"])
        write = bool(row["kind"] == STORE)
        value = stored(chip, h)
        external = bool(hart["external"])
        bus = self.controller_bus if external else self.core_bus
        region = bus.decoder.region(address)
        reply = None
        if region and region.kind == Kind.CLUSTER_PERIPHERAL:
            yield self.crossbar.take(region.target, h, self._at_crossbar(h, external))
            port = self.dma_ports.get(region.name)
            if port:
                reply = yield from port.access(write, address & 0x3FF, value)
            self.crossbar.free(region.target, 0 if port else 1)
            yield self.env.timeout(RESPONSE - 1 if port else RESPONSE)
        else:
            yield from self._pass_to_soc(h, external)
        if reply is None:
            reply = self._access(bus, write, address, value, int(row["access"] & WIDTH))
        answer_of_peripheral(chip, h, reply, self.env.now)
        self.changed()

    @staticmethod
    def _access(bus: Bus, write: bool, address: int, value: int, size: int) -> int:
        if write:
            bus.write(address, value, size)
            return 0
        return bus.read(address, size) << 8 * (address & 3)

    def _at_crossbar(self, h: int, external: bool) -> int:
        """The cycle in which a request reaches the cluster's peripheral interconnect."""
        access, asked = self.spec.access, int(self.chip.harts[h]["when"])
        cycles = access.controller_to_cluster if external else access.cluster_register
        return asked + cycles - RESPONSE

    def _pass_to_soc(self, h: int, external: bool) -> Generator[Event, None, None]:
        """A request goes to a peripheral of the SoC, and its answer comes back.

        Accesses of the cores leave the cluster one a cycle, those to L2 among them (per2axi).
        """
        access, asked = self.spec.access, int(self.chip.harts[h]["when"])
        if external:
            yield self.env.timeout(asked + access.controller_register - self.env.now)
            return
        way = self.chip.l2_port[0]
        request = asked + int(way["demux"])
        yield self.env.timeout(request - self.env.now)
        waited = max(0, int(way["core_free"]) - request)
        way["core_free"] = request + waited + 1
        yield self.env.timeout(waited + access.soc_register - int(way["demux"]))

    def _dma_event(self, name: str) -> Callable[[int], None]:
        """Lines of a port: the fabric controller's interrupt it, the cluster's lead nowhere."""
        line = event_line(FABRIC_EVENTS, "dma")
        if name == "dma_fabric":
            return lambda interrupt: self.interrupts.set_event(line + interrupt)
        return lambda _: None

    def _fetch_enable(self, mask: int) -> None:
        for core in range(self.spec.cores):
            if mask >> core & 1 and not self.enabled >> core & 1:
                start = int(self.env.now) + START_CYCLES
                start_hart(self.chip, core, self.control.boot_address(core), start)
        self.enabled |= mask

    def _cluster_event(self, line: int) -> None:
        everyone = (1 << self.spec.cores) - 1
        eu_set_event(self.chip.event_unit[0], everyone, line, self.env.now)
        self.changed()

    def _cluster_soc_event(self, number: int) -> bool:
        is_taken = bool(eu_push_soc_event(self.chip.event_unit[0], number, self.env.now))
        self.changed()
        return is_taken

    def _fabric_event(self, line: int) -> None:
        low = event_line(CLUSTER_EVENTS, "timer")
        self.interrupts.set_event(event_line(FABRIC_EVENTS, "timer") + line - low)

    def _interrupt_controller(self, line: int) -> None:
        h = self.spec.cores
        hart = self.chip.harts[h]
        hart["mip"] = 0
        if line >= 0:
            raise_interrupt(self.chip, h, line, self.env.now)
            self.changed()

    def _enable_icache(self, enable: bool) -> None:
        switch_icache(self.chip, self.env.now, int(enable))
        self.changed()

    def _flush_icache(self, shared: bool) -> None:
        flush_icache(self.chip, self.env.now, int(shared))
        self.changed()

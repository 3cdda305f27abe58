"""Wiring of the peripherals: SimPy components around the clocked parts, on one bus per master."""

from collections.abc import Callable, Generator
from functools import cache, partial
from typing import Any, NamedTuple

from simpy import Environment, Event

from soc.chip_state import Chip
from soc.decode import STORE, WIDTH
from soc.links import (
    answer_of_peripheral,
    eu_push_soc_event,
    eu_set_event,
    flush_icache,
    raise_interrupt,
    start_hart,
    stored,
    switch_icache,
)
from soc.peripherals.bus import Bus, BusError, Decoder, Peripheral, Peripherals
from soc.peripherals.cluster_control import ClusterControl, cluster_configuration
from soc.peripherals.console import Console
from soc.peripherals.crossbar import Crossbar
from soc.peripherals.dma_port import DmaPort
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
    Region,
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


class Request(NamedTuple):
    """A hart's access to a peripheral.

    found    what the bus's decoder finds
    size     bytes
    value    that is stored
    """

    hart: int
    bus: Bus
    found: int | None
    address: int
    size: int
    is_store: bool
    value: int


class Platform:
    """The peripherals of one chip, and the requests of harts to them.

    Ports
        exit        out   exit code
        console     out   byte
        warn        out   a sentence
        fault       out   hart, why: nothing answers at the address of its request
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
        fault: Callable[[int, str], None],
    ):
        self.env, self.spec, self.chip = env, spec, chip
        self.exit, self.warn, self.fault = exit, warn, fault
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

    def serve(self, h: int) -> None:
        """Carry out a hart's request to a peripheral: it takes place as its grant comes back."""
        hart = self.chip.harts[h]
        row = self.chip.code[int(hart["row"])]
        is_external, address = bool(hart["external"]), int(hart["address"])
        bus = self.controller_bus if is_external else self.core_bus
        found = bus.decoder.find(address)
        is_store, size = bool(row["kind"] == STORE), int(row["access"] & WIDTH)
        value = stored(self.chip, h) if is_store else 0
        request = Request(h, bus, found, address, size, is_store, value)
        region = None if found is None else bus.decoder.seen[found]
        asked = int(hart["when"])
        if region and region.kind == Kind.CLUSTER_PERIPHERAL:
            self._pass_to_cluster(request, region, asked, is_external)
        elif is_external:
            self._after(asked + self.spec.access.controller_register, self._answer, request)
        else:
            self._pass_to_soc(request, asked)

    def _after(self, cycle: float, action: Callable, *what: Any) -> None:
        """Let something take place in a cycle, this one or a later one."""
        wait = self.env.timeout(cycle - self.env.now)
        wait.callbacks.append(lambda _: action(*what))

    def _pass_to_cluster(
        self, request: Request, region: Region, asked: int, is_external: bool
    ) -> None:
        """A request goes by the cluster's peripheral interconnect."""
        access = self.spec.access
        cycles = access.controller_to_cluster if is_external else access.cluster_register
        port = self.dma_ports.get(region.name)
        served = partial(self._serve_port, port) if port else self._serve_register
        turn = partial(served, request, region.target)
        self.crossbar.take(region.target, request.hart, asked + cycles - RESPONSE, turn)

    def _serve_register(self, request: Request, target: int) -> None:
        self.crossbar.free(target, 1)
        self._after(self.env.now + RESPONSE, self._answer, request)

    def _serve_port(self, port: DmaPort, request: Request, target: int) -> None:
        self.env.process(self._ask_port(port, request, target))

    def _ask_port(
        self, port: DmaPort, request: Request, target: int
    ) -> Generator[Event, None, None]:
        """A control port of the DMA keeps the target until it grants."""
        reply = yield from port.access(request.is_store, request.address & 0x3FF, request.value)
        self.crossbar.free(target, 0)
        self._after(self.env.now + RESPONSE - 1, self._reply, request, reply)

    def _pass_to_soc(self, request: Request, asked: int) -> None:
        """A core's request goes to a peripheral of the SoC.

        Such accesses leave the cluster one a cycle, those to L2 among them (per2axi).
        """
        self._after(asked + int(self.chip.l2_port[0]["demux"]), self._leave_cluster, request)

    def _leave_cluster(self, request: Request) -> None:
        way = self.chip.l2_port[0]
        waited = max(0, int(way["core_free"]) - self.env.now)
        way["core_free"] = self.env.now + waited + 1
        rest = self.spec.access.soc_register - int(way["demux"])
        self._after(self.env.now + waited + rest, self._answer, request)

    def _answer(self, request: Request) -> None:
        """A register is loaded or stored, and the hart has its answer."""
        try:
            reply = self._access(request)
        except BusError as error:
            self.fault(request.hart, str(error))
        else:
            self._reply(request, reply)

    @staticmethod
    def _access(request: Request) -> int:
        """Load or store the register; returns what is loaded. Raises BusError if there is none."""
        address, size = request.address, request.size
        peripheral, offset = request.bus.find(request.found, address, size)
        if request.is_store:
            peripheral.write(offset, request.value, size)
            return 0
        return peripheral.read(offset, size) << 8 * (address & 3)

    def _reply(self, request: Request, reply: int) -> None:
        answer_of_peripheral(self.chip, request.hart, reply, self.env.now)
        self.changed()

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

"""Wiring of the peripherals: SimPy components around the clocked parts, on one bus per master."""

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from simpy import Environment

from soc.address_map.events import (
    ADVANCED_TIMER_EVENT,
    CLUSTER_EVENTS,
    FABRIC_EVENTS,
    GPIO_EVENT,
    event_line,
)
from soc.address_map.memory_map import Master, memory_map
from soc.address_map.register import Block
from soc.address_map.registers import DEBUG, FABRIC_ICACHE_CONTROL, ICACHE_CONTROL, PMU
from soc.aot.units import (
    eu_push_soc_event,
    eu_set_event,
    flush_icache,
    raise_interrupt,
    start_hart,
    switch_icache,
)
from soc.chip.spec import SocSpec
from soc.chip.state import Chip
from soc.peripherals.access import PeripheralAccess
from soc.peripherals.bus import Bus, Calls, Decoder, Peripheral, Peripherals
from soc.peripherals.cluster_control import ClusterControl, cluster_configuration
from soc.peripherals.console import Console
from soc.peripherals.crossbar import Target
from soc.peripherals.dma_port import DmaPort
from soc.peripherals.fll import Fll
from soc.peripherals.gpio import Gpio
from soc.peripherals.icache_control import IcacheControl
from soc.peripherals.interrupt_controller import InterruptController
from soc.peripherals.register_block import RegisterBlock
from soc.peripherals.shared_event_unit import SharedEventUnit
from soc.peripherals.soc_control import SocControl
from soc.peripherals.soc_events import SocEvents
from soc.peripherals.timer import Timer

if TYPE_CHECKING:
    from soc.board.memory import BoardMemory

START_CYCLES = 2
"""From fetch enable to the first issue of a core: its first fetch (RI5CY, measured: 2 + 1)."""

DMA_PORTS = {"dma_shared": 8, "dma_fabric": 9}
"""Control ports of the DMA by their regions: the cluster's, the fabric controller's."""

PLAIN = {"pmu": PMU, "debug": DEBUG, **dict.fromkeys(DMA_PORTS, PMU)}
"""Regions of registers that only remember. At the DMA's, its control ports answer instead."""

FLLS = ("fll_soc", "fll_peripheral", "fll_cluster")


@cache
def decoders(
    l1_size: int, l2_size: int, devices: tuple[tuple[str, int, int], ...] = ()
) -> tuple[Decoder, Decoder]:
    """Of the cores' accesses, and of the fabric controller's; arguments as for memory_map."""
    regions = memory_map(l1_size, l2_size, devices)
    return Decoder(regions, Master.CORE), Decoder(regions, Master.FABRIC)


class Platform:
    """The peripherals of one chip, and what they do to its clocked parts.

    Ports
        exit             out   exit code
        console          out   byte, cluster and core of its address
        warn             out   a sentence
        fault            out   hart, why: nothing answers at the address of its request
        changed          out   called when something here has changed the clocked parts
        fail             out   a sentence: the code of a user's device has gone wrong
        before_icache    out   called before the instruction cache is switched or flushed
    """

    def __init__(
        self,
        env: Environment,
        spec: SocSpec,
        chip: Chip,
        exit: Callable[[int], None],
        console: Callable[[int, int, int], None],
        warn: Callable[[str], None],
        fault: Callable[[int, str], None],
    ):
        self.env, self.spec, self.chip = env, spec, chip
        self.exit, self.console, self.warn = exit, console, warn
        self.changed: Callable[[], None] = lambda: None
        self.before_icache: Callable[[], None] = lambda: None
        self.fail: Callable[[str], None] = warn
        self.enabled = 0
        calls = Calls(env, lambda: self.changed())
        windows = [(device.name, device.base, device.size) for device in spec.device]
        if spec.ddr.size:
            windows.append(("ddr", spec.ddr.base, spec.ddr.size))
        cores, controller = decoders(spec.l1.size, spec.l2.size, tuple(windows))
        self.targets = {target: Target() for target in (*cores.cluster, *controller.cluster)}
        self.dma_ports = {
            name: DmaPort(env, chip, number, self._dma_event(name), lambda: self.changed())
            for name, number in DMA_PORTS.items()
        }
        self.interrupts = InterruptController(
            env, spec.peripherals, warn, self._interrupt_controller
        )
        self.control = self._cluster_control()
        makers = MAKERS | self._devices() if spec.device else MAKERS
        if spec.ddr.size:
            makers = makers | {"ddr": lambda of: of._ddr()}
        self.peripherals = Peripherals(makers, self)
        self.access = PeripheralAccess(
            env,
            spec,
            chip,
            Bus(cores, self.peripherals),
            Bus(controller, self.peripherals),
            calls,
            self.targets,
            self.dma_ports,
            fault,
            lambda: self.changed(),
        )

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

    def _soc_events(self) -> SocEvents:
        interrupts, lost = self.interrupts, event_line(FABRIC_EVENTS, "lost")
        unit = SocEvents(
            self.env,
            self.spec.peripherals,
            self.warn,
            interrupts.push_soc_event,
            self._cluster_soc_event,
            interrupts.has_room,
            lambda: interrupts.set_event(lost),
            self._hear,
        )
        interrupts.room = unit.go_on
        return unit

    def _trigger(self, number: int) -> None:
        """A peripheral's event goes to the SoC event unit."""
        unit = self.peripherals["soc_events"]
        assert isinstance(unit, SocEvents)
        unit.trigger(number)

    def _hear(self, number: int) -> None:
        """A SoC event passes to the peripherals that the uDMA serves."""
        from soc.peripherals.udma import Udma

        udma = self.peripherals["udma"]
        assert isinstance(udma, Udma)
        udma.hear(number)

    def _gpio(self) -> Gpio:
        line = event_line(FABRIC_EVENTS, "gpio")

        def tell() -> None:
            self.interrupts.set_event(line)
            self._trigger(GPIO_EVENT)

        return Gpio(self.env, self.warn, tell, self.spec.gpio.loopback, self._pins_seen)

    def _pins_seen(self, bank: int, levels: int) -> None:
        """The advanced timers have the first bank's pins as inputs."""
        timer = self.peripherals.made.get("advanced_timer")
        if bank == 0 and timer is not None:
            timer.see(levels)  # type: ignore[attr-defined]

    def _advanced_timer(self) -> Peripheral:
        from soc.peripherals.advanced_timer import AdvancedTimer

        line = event_line(FABRIC_EVENTS, "advanced_timer")

        def tell(number: int) -> None:
            self.interrupts.set_event(line + number)
            self._trigger(ADVANCED_TIMER_EVENT + number)

        period = self.spec.peripherals.reference_period
        timer = AdvancedTimer(self.env, period, self.warn, tell)
        gpio = self.peripherals.made.get("gpio")
        if gpio is not None:
            timer.see(gpio.word("IN"))  # type: ignore[attr-defined]
        return timer

    def _udma(self) -> Peripheral:
        from soc.peripherals.udma import L2Window, Udma
        from soc.peripherals.udma_parts import udma_parts

        l2 = L2Window(self.chip, self.spec.l2.base, self.spec.l2.size, self.warn)
        parts = udma_parts(self.spec, self.console, self.warn)
        return Udma(self.env, l2, self.warn, self._trigger, parts)

    def _ddr(self) -> Peripheral:
        from soc.board.ddr import Ddr
        from soc.board.memory import memory_of

        return Ddr(memory_of(self.spec.ddr.size, self.spec.ddr.load, "ddr.load"))

    @property
    def ddr(self) -> "BoardMemory":
        """The memory behind AXI, if the chip has one."""
        return self.peripherals["ddr"].memory  # type: ignore[attr-defined]

    @property
    def ram(self) -> "BoardMemory":
        """The HyperRAM."""
        from soc.peripherals.udma import Udma
        from soc.peripherals.udma_parts import ram_of_udma

        udma = self.peripherals["udma"]
        assert isinstance(udma, Udma)
        return ram_of_udma(udma)

    @property
    def flash(self) -> "BoardMemory":
        """The content of the flash, if the chip has one."""
        from soc.peripherals.udma import Udma
        from soc.peripherals.udma_parts import flash_of_udma

        udma = self.peripherals["udma"]
        assert isinstance(udma, Udma)
        return flash_of_udma(udma)

    def eeprom(self, bus: int) -> "BoardMemory":
        """The content of the EEPROM on an I2C bus, if the chip has one there."""
        from soc.peripherals.udma import Udma
        from soc.peripherals.udma_parts import eeprom_of_udma

        udma = self.peripherals["udma"]
        assert isinstance(udma, Udma)
        return eeprom_of_udma(udma, bus)

    def finish(self) -> None:
        """Save what is to be saved: the run is over.

        raises    ConfigError for a file that cannot be written
        """
        from soc.board.memory import save_memory

        if self.spec.hyperram.save:
            save_memory(self.ram, self.spec.hyperram.save, "hyperram.save")
        if self.spec.flash.size and self.spec.flash.save:
            save_memory(self.flash, self.spec.flash.save, "flash.save")
        if self.spec.ddr.size and self.spec.ddr.save:
            save_memory(self.ddr, self.spec.ddr.save, "ddr.save")
        for bus, eeprom in enumerate(self.spec.eeproms):
            if eeprom.size and eeprom.save:
                save_memory(self.eeprom(bus), eeprom.save, f"eeprom_{bus}.save")

    def _devices(self) -> dict[str, Callable[["Platform"], Peripheral]]:
        """How to make components of the user's own. Raises ConfigError for code not to be run."""
        from soc.peripherals.device import DevicePorts
        from soc.peripherals.device_code import device_class

        makers: dict[str, Callable[[Platform], Peripheral]] = {}
        first = 0
        for spec in self.spec.device:
            ports = DevicePorts(
                self.env,
                spec,
                self.chip,
                first,
                self.spec.l2.bank_latency,
                self.warn,
                self._cluster_event,
                lambda line: self.interrupts.set_event(line),
                self._trigger,
                lambda: self.changed(),
                lambda why: self.fail(why),
            )
            kind = device_class(spec)
            makers[spec.name] = partial(_made, kind, ports)
            first += spec.ports
        return makers

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
        if (self.chip.fetch["enabled"][: self.spec.cores] != enable).any():
            self.before_icache()
        switch_icache(self.chip, self.env.now, int(enable))
        self.changed()

    def _flush_icache(self, shared: bool) -> None:
        self.before_icache()
        flush_icache(self.chip, self.env.now, int(shared))
        self.changed()


def _made(kind: Callable[[Any], Peripheral], ports: Any, of: Platform) -> Peripheral:
    """A device; where its code goes wrong, one without registers: the run ends."""
    from soc.peripherals.device import Device, failure

    try:
        return kind(ports)
    except Exception as error:
        of.fail(failure(ports.spec, error))
        return Device(ports)


def _plain(name: str, block: Block) -> Callable[[Platform], Peripheral]:
    return lambda of: RegisterBlock(name, block, of.warn)


def _fll(name: str) -> Callable[[Platform], Peripheral]:
    return lambda of: Fll(name, of.warn)


MAKERS: dict[str, Callable[[Platform], Peripheral]] = {
    "cluster_control": lambda of: of.control,
    "cluster_timer": lambda of: of._timer("cluster_timer", of._cluster_event),
    "event_unit_shared": lambda of: SharedEventUnit(of.env, of.chip.event_unit[0]),
    "cluster_icache": lambda of: IcacheControl(
        "cluster_icache",
        ICACHE_CONTROL,
        of.warn,
        of._enable_icache,
        lambda: of._flush_icache(True),
        lambda: of._flush_icache(False),
    ),
    "soc_control": lambda of: SocControl(of.spec.cores, of.warn, of.exit, of.control.enable_all),
    "soc_events": lambda of: of._soc_events(),
    "gpio": lambda of: of._gpio(),
    "advanced_timer": lambda of: of._advanced_timer(),
    "udma": lambda of: of._udma(),
    "fabric_icache": lambda of: IcacheControl(
        "fabric_icache", FABRIC_ICACHE_CONTROL, of.warn, lambda _: None, lambda: None
    ),
    "interrupt_controller": lambda of: of.interrupts,
    "fabric_timer": lambda of: of._timer("fabric_timer", of._fabric_event),
    "stdout": lambda of: Console(of.warn, of.console),
    **{name: _plain(name, block) for name, block in PLAIN.items()},
    **{name: _fll(name) for name in FLLS},
}
"""How to make each peripheral of a platform: soc.peripherals.bus makes what is accessed."""

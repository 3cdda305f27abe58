"""The peripherals of a chip's uDMA, and what is at the other ends of their lines."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from soc.address_map.udma import HYPERBUS_COMMON_ID, HYPERBUS_QUEUES
from soc.chip.peripherals_spec import HyperRamSpec
from soc.chip.spec import SocSpec
from soc.config.toml import ConfigError
from soc.peripherals.hyperbus import HyperBus, HyperBusQueue, HyperRam
from soc.peripherals.register_block import RegisterBlock
from soc.peripherals.uart import Uart
from soc.peripherals.uart_source import source_of
from soc.peripherals.udma import Maker, Udma, UdmaPorts

UART_WRITER = 32, 0
"""What the UART sends has lines of its own on the console: after clusters 0 to 31."""


def udma_parts(
    spec: SocSpec, console: Callable[[int, int, int], None], warn: Callable[[str], None]
) -> Mapping[str, Maker]:
    """How to make them, by their names.

    console    out   a byte, and who has written it
    """

    def uart(ports: UdmaPorts) -> RegisterBlock:
        source = source_of(spec.uart.source, warn) if spec.uart.source else None
        return Uart(ports, lambda byte: console(byte, *UART_WRITER), source, spec.uart.loopback)

    controllers: list[HyperBus] = []

    def controller(ports: UdmaPorts) -> HyperBus:
        """One for all queues, made with the first of them."""
        if not controllers:
            common = replace(ports, name="hyperbus", number=HYPERBUS_COMMON_ID)
            controllers.append(HyperBus(common, ram_of(spec.hyperram)))
        return controllers[0]

    queues = {
        f"hyperbus_{number}": lambda ports: HyperBusQueue(ports, controller(ports))
        for number in range(HYPERBUS_QUEUES)
    }
    return {"uart": uart, "hyperbus": controller, **queues}


def ram_of(spec: HyperRamSpec) -> HyperRam:
    """The HyperRAM with its content at reset. Raises ConfigError if its file cannot be read."""
    if not spec.load:
        return HyperRam(spec.size)
    try:
        with Path(spec.load).open("rb") as stream:
            content = stream.read(spec.size + 1)
    except OSError as error:
        raise ConfigError([f"hyperram.load {spec.load!r}: {error.strerror}"]) from None
    if len(content) > spec.size:
        raise ConfigError([f"hyperram.load {spec.load!r}: more than {spec.size} bytes"])
    return HyperRam(spec.size, content)


def ram_of_udma(udma: Udma) -> HyperRam:
    """The HyperRAM at a uDMA's HyperBus."""
    controller = udma.part(HYPERBUS_COMMON_ID)
    assert isinstance(controller, HyperBus)
    return controller.ram


def save_ram(ram: HyperRam, spec: HyperRamSpec) -> None:
    """Write a HyperRAM's content to its file. Raises ConfigError if that cannot be."""
    try:
        Path(spec.save).write_bytes(ram.content())
    except OSError as error:
        raise ConfigError([f"hyperram.save {spec.save!r}: {error.strerror}"]) from None

"""The peripherals of a chip's uDMA, and what is at the other ends of their lines."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from soc.address_map.udma import HYPERBUS_COMMON_ID, HYPERBUS_QUEUES, I2C_IDS, SPIM_ID
from soc.board.eeprom import Eeprom
from soc.board.memory import BoardMemory, memory_of
from soc.board.spi_flash import SpiFlash
from soc.board.uart_source import source_of
from soc.chip.peripherals_spec import EepromSpec, FlashSpec
from soc.chip.spec import SocSpec
from soc.peripherals.hyperbus import HyperBus, HyperBusQueue
from soc.peripherals.i2c import I2c
from soc.peripherals.register_block import RegisterBlock
from soc.peripherals.spim import Spim
from soc.peripherals.uart import Uart
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
        source = source_of(spec.uart.source) if spec.uart.source else None
        return Uart(ports, lambda byte: console(byte, *UART_WRITER), source, spec.uart.loopback)

    def spim(ports: UdmaPorts) -> RegisterBlock:
        return Spim(ports, [flash_of(spec.flash, ports)] if spec.flash.size else [])

    def i2c(bus: int, eeprom: EepromSpec) -> Maker:
        def made(ports: UdmaPorts) -> RegisterBlock:
            return I2c(ports, [eeprom_of(eeprom, bus)] if eeprom.size else [])

        return made

    controllers: list[HyperBus] = []

    def controller(ports: UdmaPorts) -> HyperBus:
        """One for all queues, made with the first of them."""
        if not controllers:
            common = replace(ports, name="hyperbus", number=HYPERBUS_COMMON_ID)
            controllers.append(
                HyperBus(common, memory_of(spec.hyperram.size, spec.hyperram.load, "hyperram.load"))
            )
        return controllers[0]

    queues = {
        f"hyperbus_{number}": lambda ports: HyperBusQueue(ports, controller(ports))
        for number in range(HYPERBUS_QUEUES)
    }
    buses = {f"i2c_{bus}": i2c(bus, eeprom) for bus, eeprom in enumerate(spec.eeproms)}
    return {"uart": uart, "spim": spim, **buses, "hyperbus": controller, **queues}


def ram_of_udma(udma: Udma) -> BoardMemory:
    """The HyperRAM at a uDMA's HyperBus."""
    controller = udma.part(HYPERBUS_COMMON_ID)
    assert isinstance(controller, HyperBus)
    return controller.ram


def flash_of(spec: FlashSpec, ports: UdmaPorts) -> SpiFlash:
    """The flash with its content at reset. Raises ConfigError if its file cannot be read."""
    memory = memory_of(spec.size, spec.load, "flash.load")
    times = spec.program_time, spec.erase_time
    return SpiFlash(memory, *times, lambda: int(ports.env.now), ports.warn)


def eeprom_of(spec: EepromSpec, bus: int) -> Eeprom:
    """The EEPROM on a bus, as it is at reset. Raises ConfigError if its file cannot be read."""
    memory = memory_of(spec.size, spec.load, f"eeprom_{bus}.load")
    return Eeprom(memory, bus, spec.page, spec.write_time)


def eeprom_of_udma(udma: Udma, bus: int) -> BoardMemory:
    """The content of the EEPROM at one of a uDMA's I2C masters."""
    master = udma.part(I2C_IDS[bus])
    assert isinstance(master, I2c)
    eeprom = master.devices[0]
    assert isinstance(eeprom, Eeprom)
    return eeprom.memory


def flash_of_udma(udma: Udma) -> BoardMemory:
    """The content of the flash at a uDMA's SPI master."""
    spim = udma.part(SPIM_ID)
    assert isinstance(spim, Spim)
    flash = spim.devices[0]
    assert isinstance(flash, SpiFlash)
    return flash.memory

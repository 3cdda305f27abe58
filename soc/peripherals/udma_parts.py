"""The peripherals of a chip's uDMA, and what is at the other ends of their lines."""

from collections.abc import Callable, Mapping

from soc.chip.spec import SocSpec
from soc.peripherals.register_block import RegisterBlock
from soc.peripherals.uart import Uart
from soc.peripherals.uart_source import source_of
from soc.peripherals.udma import Maker, UdmaPorts

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

    return {"uart": uart}

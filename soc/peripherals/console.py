"""The console of PULP's test benches: a store prints a character.

Source: pulp-runtime archi/stdout/stdout_v2.h. Firmware writes the character as a byte or a word to
base + (cluster << 7) + (core << 3), so that the test bench can keep the cores' lines apart.
"""

from collections.abc import Callable

from soc.address_map.registers import STDOUT
from soc.peripherals.register_block import RegisterBlock, stores


class Console(RegisterBlock, write_only=("PUT",)):
    """Passes characters on.

    Ports
        warn    out   see RegisterBlock
        put     out   byte, cluster and core of the address
    """

    def __init__(self, warn: Callable[[str], None], put: Callable[[int, int, int], None]):
        super().__init__("stdout", STDOUT, warn)
        self.print = put

    @stores("PUT")
    def _print(self, name: str, index: int, value: int) -> None:
        self.print(value & 0xFF, index >> 4, index & 15)

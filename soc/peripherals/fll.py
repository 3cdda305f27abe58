"""A frequency-locked loop. All clocks of the simulated chip are equal, so it locks at once.

Source: pulp-runtime archi/fll/fll_v1.h: f = 32,768 Hz x factor / 2^(divider - 1).
"""

from collections.abc import Callable

from soc.address_map.registers import FLL
from soc.peripherals.register_block import RegisterBlock, loads, stores

CONFIG = {field.name: field for field in FLL.register("CONFIG_1").fields}


class Fll(RegisterBlock, read_only=("STATUS",)):
    """Remembers its configuration and reports the factor that was asked for as reached.

    Ports
        warn    out   see RegisterBlock; also, once, that another frequency changes no cycle
    """

    def __init__(self, name: str, warn: Callable[[str], None]):
        super().__init__(name, FLL, warn)

    @loads("STATUS")
    def _status(self, name: str, index: int) -> int:
        config = self.word("CONFIG_1")
        locked = config & CONFIG["mode"].mask
        return config & CONFIG["factor"].mask if locked else self.word(name)

    @stores("CONFIG_1")
    def _configure(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value)
        if value & CONFIG["mode"].mask:
            self.warn_once("a frequency is set; all clocks of this chip stay equal")

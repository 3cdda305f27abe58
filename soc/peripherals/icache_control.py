"""Control of an instruction cache: enable and flush, of the cluster or of the fabric controller.

Source: hier-icache hier_icache_ctrl_unit.sv. Both caches are off at reset. Firmware enables them
with a store of all ones; the RTL looks at bit 0.
"""

from collections.abc import Callable

from soc.peripherals.register_block import RegisterBlock
from soc.registers import Block


class IcacheControl(RegisterBlock):
    """Turns stores into orders to a cache. Unconnected ports do nothing.

    Ports
        warn             out   see RegisterBlock
        enable           out   False: fetch around the cache
        flush            out   invalidate all levels
        flush_private    out   invalidate the private level
        flush_line       out   byte address: invalidate its line
    """

    def __init__(
        self,
        name: str,
        block: Block,
        warn: Callable[[str], None],
        enable: Callable[[bool], None],
        flush: Callable[[], None],
        flush_private: Callable[[], None] = lambda: None,
        flush_line: Callable[[int], None] = lambda address: None,
    ):
        super().__init__(name, block, warn)
        self.enable, self.flush = enable, flush
        self.flush_private, self.flush_line = flush_private, flush_line
        self.loads = {
            name: lambda _: 0 for name in ("FLUSH", "FLUSH_PRIVATE", "STATUS", "PREFETCH")
        }
        self.stores = {
            "ENABLE": self._store_enable,
            "FLUSH": lambda _, value: self.flush() if value & 1 else None,
            "FLUSH_PRIVATE": lambda _, value: self.flush_private() if value & 1 else None,
            "FLUSH_ADDRESS": self._store_flush_address,
            "STATUS": lambda _, __: None,
        }

    def _store_enable(self, _: int, value: int) -> None:
        self.put("ENABLE", value & 1)
        self.enable(bool(value & 1))

    def _store_flush_address(self, _: int, value: int) -> None:
        self.put("FLUSH_ADDRESS", value)
        self.flush_line(value)

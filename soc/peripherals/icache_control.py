"""Control of an instruction cache: enable and flush, of the cluster or of the fabric controller.

Source: hier-icache hier_icache_ctrl_unit.sv. Both caches are off at reset. Firmware enables them
with a store of all ones; the RTL looks at bit 0.
"""

from collections.abc import Callable

from soc.address_map.register import Block
from soc.peripherals.register_block import RegisterBlock, stores


class IcacheControl(
    RegisterBlock,
    write_only=("FLUSH", "FLUSH_PRIVATE", "PREFETCH"),
    read_only=("STATUS",),
):
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

    @stores("ENABLE")
    def _enable(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value & 1)
        self.enable(bool(value & 1))

    @stores("FLUSH")
    def _flush(self, name: str, index: int, value: int) -> None:
        if value & 1:
            self.flush()

    @stores("FLUSH_PRIVATE")
    def _flush_private(self, name: str, index: int, value: int) -> None:
        if value & 1:
            self.flush_private()

    @stores("FLUSH_ADDRESS")
    def _flush_line(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value)
        self.flush_line(value)

"""A plain memory behind the SoC's AXI, which the cores reach as they reach registers.

Not from RTL: public chips of PULP leave it to their boards. An access takes the cycles of one to a
register of the SoC.
"""

from collections.abc import Iterator

from soc.board.memory import BoardMemory


class Ddr:
    """Loads and stores of bytes, halfwords and words."""

    def __init__(self, memory: BoardMemory):
        self.memory = memory

    def parts(self) -> Iterator[object]:
        """What has state."""
        yield self.memory

    def read(self, offset: int, size: int) -> int:
        """Load `size` bytes."""
        return int.from_bytes(self.memory.read(offset, size), "little")

    def write(self, offset: int, value: int, size: int) -> None:
        """Store `size` bytes."""
        self.memory.write(offset, (value & (1 << 8 * size) - 1).to_bytes(size, "little"))

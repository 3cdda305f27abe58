"""A systolic matrix-multiply engine beside the cores: C[n, m] = A[n, k] @ B[m, k]^T, in L1.

4 x 4 multiply-adders, each the sum of one element of C. Four ports stream rows of A, four rows of
B, one 32-bit word a cycle each: an FP32 element, or two FP16 elements. Row i of the array is i
cycles behind row 0, so rows whose words lie in the same bank do not meet there. Sums are FP32.
"""

import numpy as np

from soc.peripherals.device import MOST_WORDS, Device, Register, stores

SIDE = 4  # rows and columns of the array
HALF = 1 << 0


class Engine(Device, write_only=("START",), read_only=("BUSY",)):
    """Multiplies; sets accelerator event 0 (line 12 of the event unit) when it has."""

    REGISTERS = (
        Register("START", 0x00, "a store starts it"),
        Register("BUSY", 0x04, "1: it multiplies"),
        Register("A", 0x08, "address of A[n, k] in L1, row-major"),
        Register("B", 0x0C, "address of B[m, k]"),
        Register("C", 0x10, "address of C[n, m]"),
        Register("N", 0x14, "rows of A, a multiple of 4"),
        Register("M", 0x18, "rows of B, a multiple of 4"),
        Register("K", 0x1C, "elements of a row, a multiple of 4 bytes"),
        Register("FORMAT", 0x20, "bit 0: A, B and C are FP16, else FP32"),
    )

    @stores("START")
    def _start(self, name: str, index: int, value: int) -> None:
        if self.word("BUSY"):
            self.warn("engine: START while it is busy does nothing")
            return
        self.put("BUSY", 0, 1)
        self.process(self.multiply())

    def multiply(self):
        """All blocks of C, one after the other; then the event."""
        half = self.word("FORMAT") & HALF
        kind, size = (np.float16, 2) if half else (np.float32, 4)
        a, b, c, n, m, k = (self.word(name) for name in ("A", "B", "C", "N", "M", "K"))
        if n % SIDE or m % SIDE or k * size % 4:
            self.warn(f"engine: {n} x {m} x {k} is no whole number of blocks of {SIDE}")
            n = 0
        for i in range(0, n, SIDE):
            for j in range(0, m, SIDE):
                yield from self.part_of_c(a + i * k * size, b + j * k * size, k, size, kind)
                yield self.wait(2 * SIDE)  # the last elements pass through the array
                yield from self.write(c + (i * m + j) * size, m * size, kind)
        self.put("BUSY", 0, 0)
        self.event(0)

    def part_of_c(self, a, b, k, size, kind):
        """Stream four rows of both matrices through the array."""
        self.sums = np.zeros((SIDE, SIDE), np.float32)
        row, words = k * size, k * size // 4
        for first in range(0, words, MOST_WORDS):
            count = min(MOST_WORDS, words - first)
            rows = [None] * 2 * SIDE
            streams = [
                self.process(self.stream(rows, port, start + port % SIDE * row + 4 * first, count))
                for port, start in enumerate([a] * SIDE + [b] * SIDE)
            ]
            yield self.env.all_of(streams)
            left, right = (
                np.array(part).view(kind).astype(np.float32) for part in (rows[:SIDE], rows[SIDE:])
            )
            for step in range(left.shape[1]):  # in the order in which the array adds
                self.sums += np.outer(left[:, step], right[:, step])

    def stream(self, rows, port, address, count):
        """One row, some cycles after the row before it."""
        yield self.wait(port % SIDE)
        rows[port] = yield from self.read_l1(address, count, port=port)

    def write(self, address, row, kind):
        """Write the block, a row through each port of A."""
        writes = [
            self.process(self.write_l1(address + i * row, line, port=i))
            for i, line in enumerate(self.sums.astype(kind))
        ]
        yield self.env.all_of(writes)

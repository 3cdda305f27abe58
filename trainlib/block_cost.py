"""What a core's part of a product costs by its block: registers, and cycles, nearly."""

from itertools import product

from trainlib.operands import Operands

AROUND = 8  # instructions around a block's inner loop, nearly
OWN_CODE = 128  # instructions that a core's own cache holds
FETCH = 3 / 4  # cycles that an instruction takes which is not there: 3 for a line of 4
X_REGISTERS, F_REGISTERS = 30, 32  # that code can have


def float_registers(rows: int, cols: int) -> int:
    """Registers of floats that a block needs at least."""
    return rows * cols + min(rows, cols) + min(2, max(rows, cols))


def step_registers(x: Operands, height: int, width: int, rows: int, cols: int) -> int:
    """Registers that the loads of a part's blocks need for constants."""
    sizes = product(_blocks(height, rows), _blocks(width, cols))
    return max(len(x.constants(h, w)) for (h, _), (w, _) in sizes)


def fits(x: Operands, height: int, width: int, rows: int, cols: int, shares: bool) -> bool:
    """Do the registers suffice for a part? Floats share them with addresses, or do not."""
    floats = float_registers(rows, cols)
    addresses = 2 + step_registers(x, height, width, rows, cols)
    return floats + addresses <= X_REGISTERS if shares else floats <= F_REGISTERS


def cycles_of_part(x: Operands, height: int, width: int, rows: int, cols: int) -> int:
    """Cycles of a part, nearly: what it issues, and what it waits for code.

    NOTE: of code that a core's own cache does not hold, it loses what it has no room for from one
    panel to the next; the inner loops stay there while they run.
    """
    cycles = code = passed = 0
    for h, panels in _blocks(height, rows):
        for w, blocks in _blocks(width, cols):
            sums, stall = h * w, h * w == 1
            step = sums + h + w + stall
            around = (1 + x.starts) * sums + AROUND
            cycles += panels * blocks * (x.depth * step + around)
            code += 2 * step + around
            passed += panels * (2 * step + around)
        cycles += panels * AROUND
    lost = max(0, 1 - OWN_CODE / code)
    return cycles + int(FETCH * (code + lost * passed))


def _blocks(size: int, blocking: int) -> list[tuple[int, int]]:
    """Sizes of the blocks of a part, and how many there are."""
    times, rest = divmod(size, blocking)
    return [(blocking, times)] * (times > 0) + [(rest, 1)] * (rest > 0)

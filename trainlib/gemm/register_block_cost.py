"""The cost of a core's part of a product by its block: registers, and cycles, nearly."""

from functools import lru_cache, reduce
from itertools import product
from typing import Any

import numpy as np

from trainlib.gemm.operands import Operands

LARGEST_BLOCK = 8  # rows or columns that are tried where none are given
LARGEST_LONE = 12  # of a lone row or column that is all of a part: what a step loads at once
AROUND = 8  # instructions around a block's inner loop, nearly
OWN_CODE = 128  # instructions that a core's own cache holds
FETCH = 3 / 4  # cycles that an instruction takes which is not there: 3 for a line of 4
X_REGISTERS, F_REGISTERS = 30, 32  # that code can have


def float_registers(rows: Any, cols: Any) -> Any:
    """Registers of floats that a block needs at least; of many: arrays."""
    return rows * cols + np.minimum(rows, cols) + np.minimum(2, np.maximum(rows, cols))


def step_registers(x: Operands, height: int, width: int, rows: int, cols: int) -> int:
    """Registers that the loads of a part's blocks need for constants."""
    heights, widths = (
        [size for size, count in _blocks(total, blocking) if count]
        for total, blocking in ((height, rows), (width, cols))
    )
    return max(len(x.constants(h, w)) for h, w in product(heights, widths))


def largest_block(n: int, m: int) -> tuple[int, int]:
    """Rows and columns that blocks of C[n, m] have at most where none are given."""
    return (LARGEST_LONE if m == 1 else LARGEST_BLOCK), (LARGEST_LONE if n == 1 else LARGEST_BLOCK)


@lru_cache(1024)
def constants(x: Operands, rows: int, cols: int) -> np.ndarray:
    """[i, j]: registers that the loads of a block of i x j need for constants; 0 of an empty one,
    and of one with too many sums in any case.

    rows, cols    of the largest that is asked for
    """
    found = np.zeros((rows + 1, cols + 1), int)
    has_room = float_registers(*np.ogrid[: rows + 1, : cols + 1]) <= X_REGISTERS
    for i, j in np.argwhere(has_room[1:, 1:]) + 1:
        found[i, j] = len(x.constants(int(i), int(j)))
    found.flags.writeable = False
    return found


def fits(needed: np.ndarray, height: Any, width: Any, rows: Any, cols: Any, shares: bool) -> Any:
    """Do the registers suffice for a part? Floats share them with addresses, or do not.

    Of one part and block, or of many: arrays. Parts have at least as many rows and columns as
    blocks.

    needed    by a block: see `constants`
    """
    floats = float_registers(rows, cols)
    if not shares:
        return floats <= F_REGISTERS
    heights, widths = (rows, height % rows), (cols, width % cols)
    steps = reduce(np.maximum, (needed[h, w] for h, w in product(heights, widths)))
    return floats + 2 + steps <= X_REGISTERS


def cycles_of_part(x: Operands, height: Any, width: Any, rows: Any, cols: Any) -> Any:
    """Cycles of a part, nearly: what it issues, and what it waits for code.

    Of one part and block, or of many: numbers or arrays of them.

    NOTE: of code that a core's own cache does not hold, it loses what it has no room for from one
    panel to the next; the inner loops stay there while they run.
    """
    cycles = code = passed = 0
    for h, panels in _blocks(height, rows):
        for w, blocks in _blocks(width, cols):
            step, around = _block(x, h, w)
            new = (panels > 0) * (blocks > 0) * (2 * step + around)
            cycles = cycles + panels * blocks * (x.depth * step + around)
            code, passed = code + new, passed + panels * new
        cycles = cycles + panels * AROUND
    lost = (code > OWN_CODE) * (1 - OWN_CODE / code)
    return cycles + FETCH * (code + lost * passed)


def code_of_part(x: Operands, height: int, width: int, rows: int, cols: int) -> int:
    """Instructions of a part's code, nearly: two steps, and what is around, by sizes of blocks."""
    code = 0
    for h, panels in _blocks(height, rows):
        for w, blocks in _blocks(width, cols):
            if panels and blocks:
                step, around = _block(x, h, w)
                code += 2 * step + around
    return code


def _block(x: Operands, rows: Any, cols: Any) -> tuple[Any, Any]:
    """Instructions of a step of a block, and of what is around its steps."""
    sums = rows * cols
    return sums + rows + cols, x.ends * sums + AROUND


@lru_cache(1024)
def least_cycles(x: Operands, n: int, m: int, shares: bool) -> np.ndarray:
    """cycles[n + 1, m + 1] of parts with so many rows and columns, each with its best block."""
    least = np.zeros((n + 1, m + 1), int)
    least[1:, 1:] = np.iinfo(int).max
    highest, widest = map(min, (n, m), largest_block(n, m))
    needed = constants(x, highest, widest)
    for rows, cols in product(range(1, highest + 1), range(1, widest + 1)):
        last_n = rows if rows > LARGEST_BLOCK else n
        last_m = cols if cols > LARGEST_BLOCK else m
        heights, widths = np.ogrid[rows : last_n + 1, cols : last_m + 1]
        room = fits(needed, heights, widths, rows, cols, shares)
        if np.any(room):
            cycles = cycles_of_part(x, heights, widths, rows, cols).astype(int)
            part = least[rows : last_n + 1, cols : last_m + 1]
            np.minimum(part, cycles, out=part, where=room)
    least.flags.writeable = False
    return least


def _blocks(size: Any, blocking: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Sizes of the blocks of a part, and how many there are: whole ones, and one of the rest."""
    times, rest = size // blocking, size % blocking
    return (blocking, times), (rest, (rest > 0) * 1)

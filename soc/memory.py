"""Loads and stores: the bytes of one transaction on a word-wide memory.

An access that crosses a word is two transactions, low word first (lsu of RI5CY and CV32E40P).
"""

import numpy as np

from soc.decode import ACCESSES, BOX, LOAD, WIDTH, ZERO_EXTEND
from soc.state import COUNT
from soc.step import cold_step, inlined_step, step

WORD = ACCESSES["i32"]
LOADS, STORES = COUNT.loads, COUNT.stores
MISALIGNED = COUNT.misaligned


@step
def extended(value, access, boxed):
    """Return the loaded bytes as the register's value, signed 32 bits."""
    width = 8 * (access & WIDTH)
    value &= (1 << width) - 1
    if width == 32 or access & (ZERO_EXTEND | BOX) == 0:
        sign = 1 << (width - 1)
        return (value ^ sign) - sign
    if access & BOX:
        if boxed:
            return value - (1 << width)
        sign = 1 << (width - 1)
        return (value ^ sign) - sign
    return value


@cold_step
def unaligned_load(hart, row, words, offset):
    """Read a narrow or unaligned value; returns True if its second half is due."""
    word = offset >> 2
    shift = 8 * int(offset & 3)
    crosses = (offset & 3) + (row["access"] & WIDTH) > 4
    if hart["second"] == 0:
        low = int(words[np.uint64(word)]) & 0xFFFFFFFF
        if crosses:
            hart["partial"] = low
            return True
        value = low >> shift
    else:
        high = int(words[np.uint64(word + 1)]) & 0xFFFFFFFF
        value = (int(hart["partial"]) | high << 32) >> shift
    hart["regs"][row["rd"]] = extended(value, int(row["access"]), hart["boxed"])
    return False


@step
def merged(word, data, mask):
    """Return a memory word with some bits replaced, signed 32 bits."""
    return ((word & ~mask | data & mask) & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


@cold_step
def unaligned_store(hart, row, words, offset):
    """Write a narrow or unaligned value; returns True if its second half is due."""
    word = offset >> 2
    shift = 8 * int(offset & 3)
    width = row["access"] & WIDTH
    data = (int(hart["regs"][row["rs2"]]) & 0xFFFFFFFF) << shift
    mask = ((1 << 8 * width) - 1) << shift
    if hart["second"]:
        index = np.uint64(word + 1)
        words[index] = merged(int(words[index]), data >> 32, mask >> 32)
        return False
    index = np.uint64(word)
    words[index] = merged(int(words[index]), data, mask & 0xFFFFFFFF)
    return (offset & 3) + width > 4


@inlined_step
def transact_word(hart, row, words, word):
    """Read or write an aligned word; the register of a load is written, the access counted."""
    counts = hart["counts"]
    if row["kind"] == LOAD:
        counts[LOADS] += 1
        hart["regs"][row["rd"]] = words[np.uint64(word)]
    else:
        counts[STORES] += 1
        words[np.uint64(word)] = hart["regs"][row["rs2"]]


@inlined_step
def transact(hart, row, words, offset):
    """Perform one transaction at a byte offset; returns True if the access needs another.

    The register of a load is written, and the counts of loads and stores go up.
    """
    if row["access"] == WORD and offset & 3 == 0:
        transact_word(hart, row, words, offset >> 2)
        return False
    if row["kind"] == LOAD:
        hart["counts"][LOADS] += 1
        return unaligned_load(hart, row, words, offset)
    hart["counts"][STORES] += 1
    return unaligned_store(hart, row, words, offset)

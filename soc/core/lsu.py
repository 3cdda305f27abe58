"""Loads and stores: the bytes of one transaction on a word-wide memory.

An access that crosses a word is two transactions, low word first. Each has an address of its own,
the second one that of the next word, and each goes where its own address leads: so what lies past
the end of a memory is asked for like any other address, when the first half has taken place.

Sources: trans_addr in cv32e40p_load_store_unit.sv (RI5CY's LSU does the same with the address that
its EX stage adds up anew); core_demux.sv, which decodes every request by itself.
"""

import numpy as np

from soc.core.bounds import is_in_l1
from soc.core.decoder import ACCESSES
from soc.prelude.counters import COUNT
from soc.prelude.decoded import BOX, LOAD, WIDTH, ZERO_EXTEND
from soc.prelude.step import cold_step, inlined_step, step

WORD = ACCESSES["i32"]
LOADS, STORES = COUNT.loads, COUNT.stores
MISALIGNED = COUNT.misaligned


@step
def extended(value, access):
    """Return the loaded bytes as the register's value, signed 32 bits; above a float are ones."""
    width = 8 * (access & WIDTH)
    value &= (1 << width) - 1
    if width == 32 or access & (ZERO_EXTEND | BOX) == 0:
        sign = 1 << (width - 1)
        return (value ^ sign) - sign
    return value - (1 << width) if access & BOX else value


@step
def crosses_word(row, address):
    """Does an access at this address end in the next word?"""
    return (address & 3) + (row["access"] & WIDTH) > 4


@step
def turn_to_second_half(hart):
    """Let a hart ask for the second half of its access: the rest of its bytes, in the next word."""
    address = hart["address"]
    hart["second"] = 4 - (address & 3)
    hart["address"] = (address & -4) + 4 & 0xFFFFFFFF


@inlined_step
def end_access(hart):
    """Let a hart's address be that of the whole access again, which rule F asks for."""
    hart["address"] -= hart["second"]
    hart["second"] = 0


@cold_step
def unaligned_load(hart, row, words, offset):
    """Read a narrow or unaligned value; returns True if its second half is due."""
    word = int(words[np.uint64(offset >> 2)]) & 0xFFFFFFFF
    if hart["second"]:
        value = int(hart["partial"]) | word << 8 * int(hart["second"])
    else:
        value = word >> 8 * int(offset & 3)
        if crosses_word(row, offset):
            hart["partial"] = value
            return True
    hart["regs"][row["rd"]] = extended(value, int(row["access"]))
    return False


@step
def merged(word, data, mask):
    """Return a memory word with some bits replaced, signed 32 bits."""
    return ((word & ~mask | data & mask) & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


@cold_step
def unaligned_store(hart, row, words, offset):
    """Write a narrow or unaligned value; returns True if its second half is due."""
    index = np.uint64(offset >> 2)
    before, after = 8 * int(hart["second"]), 8 * int(offset & 3)
    data = (int(hart["regs"][row["rs2"]]) & 0xFFFFFFFF) >> before << after
    mask = (1 << 8 * int(row["access"] & WIDTH)) - 1 >> before << after
    words[index] = merged(int(words[index]), data, mask & 0xFFFFFFFF)
    return hart["second"] == 0 and crosses_word(row, offset)


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
    if row["access"] == WORD and offset & 3 | hart["second"] == 0:
        transact_word(hart, row, words, offset >> 2)
        return False
    if row["kind"] == LOAD:
        hart["counts"][LOADS] += 1
        return unaligned_load(hart, row, words, offset)
    hart["counts"][STORES] += 1
    return unaligned_store(hart, row, words, offset)


@inlined_step
def access_granted(hart, row, now):
    """Note the grant of a hart's access: its next instruction can issue now."""
    hart["ex_ready"] = now
    hart["forwarded"] = now + 1
    hart["memory_grant"] = now
    if row["kind"] == LOAD:
        hart["load_register"] = row["rd"]
        hart["load_grant"] = now


@inlined_step
def asks_l1(chip, hart):
    """Does a hart ask for something of its own L1?"""
    return is_in_l1(chip, hart["address"]) and hart["external"] == 0


@inlined_step
def asks_for_word(chip, hart, row):
    """Does a hart ask for an aligned word of L1?"""
    return asks_l1(chip, hart) and row["access"] == WORD and hart["address"] & 3 == 0

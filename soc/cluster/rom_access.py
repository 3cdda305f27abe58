"""Accesses to the boot ROM: its words repeat through its space, and it ignores stores.

Source: boot_rom.sv of pulp_soc, which has neither a write enable nor the upper bits of the address.
"""

import numpy as np

from soc.address_map.memory_map import BOOT_ROM, BOOT_ROM_SPACE
from soc.core.lsu import STORES, crosses_word, transact
from soc.prelude.decoded import STORE
from soc.prelude.step import cold_step, step


@step
def is_in_rom(chip, address):
    """Is an address in the space of the boot ROM of a chip that has one?"""
    return chip.rom.size != 0 and np.uint64(address - BOOT_ROM) < np.uint64(BOOT_ROM_SPACE)


@cold_step
def rom_access(chip, hart, row):
    """Perform one transaction on the boot ROM; returns True if the access needs another."""
    offset = hart["address"] & 4 * chip.rom.size - 1
    if row["kind"] == STORE:
        hart["counts"][STORES] += 1
        return hart["second"] == 0 and crosses_word(row, offset)
    return transact(hart, row, chip.rom, offset)

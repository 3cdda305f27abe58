"""The one check between the address of an access and an array of the chip."""

import numpy as np

from soc.prelude.step import inlined_step


@inlined_step
def is_in_l1(chip, address):
    """Is an address in L1?

    The check is made of every transaction, the second half of an access among them.
    """
    offset = np.uint64(address - chip.config[0]["l1_base"])
    return offset < np.uint64(chip.config[0]["l1_size"])


@inlined_step
def is_in_l2(chip, address):
    """Is an address in L2?"""
    offset = np.uint64(address - chip.config[0]["l2_base"])
    return offset < np.uint64(chip.config[0]["l2_size"])

"""Stores to L2 by others than harts: code that they change is decoded anew."""

import numpy as np

from soc.chip.state import Chip
from soc.core.decoded_index import note_write


def store_l2(chip: Chip, offset: int, data: bytes) -> None:
    """Write bytes to L2, all of them in it; instructions that they change count after a fence.i.

    offset    from the start of L2
    """
    end = offset + len(data)
    chip.l2.view(np.uint8)[offset:end] = np.frombuffer(data, np.uint8)
    first, last = offset >> 2, end + 3 >> 2
    if chip.code["kind"][max(2 * first - 1, 0) : 2 * last].any():
        for word in range(first, last):
            note_write(chip, word)

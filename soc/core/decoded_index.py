"""Where an instruction's row is, how many fetches bring it, and whether its word is written.

A row holds what memory held when a hart first came to it, until a fence.i of any hart: then what
was written since is decoded anew. An access under way keeps the row that it was issued with: if
that changes, as a copy in a row of the hart's own, after those of the memory.
"""

import numpy as np

from soc.prelude.decoded import UNDECODED
from soc.prelude.step import cold_step, inlined_step, step
from soc.prelude.wheel import WRITES

# What a fence.i asks of the host, in `wheel.fence`.
LOOK_AT_WRITES = 1  # have words changed whose instructions are decoded?
RUN_AHEAD = 2  # they have: let the other harts run on with the rows as they are


@step
def row_index(config, pc):
    """Return the row of a code address; out of range if the address is not code memory.

    Code memory answers at 0, too, on the RTL's test bench.
    """
    offset = pc - config["code_base"]
    if offset < 0 and pc < config["code_alias"]:
        offset = pc
    return offset >> 1


@step
def note_write(chip, word):
    """Note that a word of L2 is written: a fence.i looks at its instructions if they are decoded.

    word    from the start of L2; the instruction before it may end in it

    NOTE: the rows of data alone are not looked at, which would be 128 bytes a word.
    """
    wheel = chip.wheel[0]
    if wheel["decoded_first"] <= 2 * word + 1 and 2 * word <= wheel["decoded_end"]:
        _note(chip, wheel, word)


@cold_step
def _note(chip, wheel, word):
    kinds = chip.code["kind"]
    index = np.uint64(2 * word)
    before = np.uint64(max(2 * word - 1, 0))
    if kinds[before] | kinds[index] | kinds[index + np.uint64(1)] == 0:
        return
    place = wheel["writes"]
    if place < WRITES:
        wheel["written"][np.uint64(place)] = word
    wheel["writes"] = place + 1


@inlined_step
def is_split(chip, hart, pc):
    """Is there a 32-bit instruction at 2 mod 4, which takes one more fetch to arrive?

    pc    what the hart goes to; as it was decoded: so the caches have it
    """
    config = chip.config[0]
    index = row_index(config, pc)
    if index < 0 or index >= config["rows"] or pc & 2 == 0:
        return 0
    row = chip.code[np.uint64(index)]
    if row["kind"] == UNDECODED:
        return foresee_split(chip, hart, pc, index)
    return 1 if row["size"] == 4 else 0


@cold_step
def foresee_split(chip, hart, pc, index):
    """The same of an instruction that is not decoded yet, as memory holds it now.

    The hart may be ahead: what it goes to is decoded in the cycle of its jump, and then has to be
    what was foreseen (soc.core.decode_cache.CodeMemory.is_foreseen_wrong).
    """
    split = 1 if chip.l2[np.uint64(index >> 1)] >> 16 & 3 == 3 else 0
    hart["foreseen"] = pc | split
    return split

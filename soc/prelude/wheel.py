"""Timing wheel: which harts are due in which cycle."""

import numpy as np

from soc.prelude.bits import bit
from soc.prelude.step import inlined_step

SLOTS = 64
"""Cycles that the timing wheel looks ahead."""

RING = 16
"""Cycles that a hart can be ahead with its request to L1, at most; a power of two."""

WRITES = 1024
"""Words of decoded instructions that are noted as they are written; of more, all are looked at."""

NULL_PLACES = 64
"""Instructions that are noted for an access through a null pointer, at most."""

PORTS = 63
"""In the place of a hart: masters of L2's ports that are none."""

NEVER = 1 << 62
"""A cycle that does not come."""

WHEEL = np.dtype(
    [
        ("slots", "u8", (SLOTS,)),  # harts due in cycle c: bits of slot c % SLOTS
        ("asking", "u2", (RING, 64)),  # cycle % RING, bank: harts with requests for aligned words
        ("shared", "u8", (RING,)),  # cycle % RING: banks that several of these are for
        ("now", "i8"),
        ("due", "u8"),  # harts that are in some slot
        ("acted", "i8"),  # last cycle in which a request was served, or the DMA or event unit acted
        ("resume", "u8"),  # harts that go on in this cycle, once their code is decoded
        ("ports", "i8"),  # next cycle in which a master other than a hart asks for a port of L2
        ("asked", "u8"),  # masters that ask for one in this cycle
        ("fence", "i8"),  # what a fence.i asks for, see soc.core.decoded_index
        ("dma_busy", "i8"),
        ("host", "u8"),  # harts whose request waits for the host
        ("words", "u8"),  # harts whose request, if it is due, is for an aligned word of L1
        ("running", "u8"),  # harts that are due just to run on
        ("turn", "i8"),  # hart with which superblocks have ended: see call_superblock
        ("others", "u8"),  # harts that come after it in this cycle
        ("at_event_unit", "u8"),  # harts whose load the event unit holds
        ("at_dma", "u8"),  # harts whose access a DMA port holds
        ("stop", "i8"),  # why the loop returned
        ("decoded_first", "i8"),  # rows among which all decoded ones are: the first of them
        ("decoded_end", "i8"),  # and the one after the last; 0: there are none
        ("writes", "i8"),  # stores since the last fence.i to words whose instructions are decoded
        ("written", "i8", (WRITES,)),  # these words, from the start of L2
        ("nulls", "i8"),  # accesses through a null pointer that are noted: how many, and of each
        ("null_row", "i8", (NULL_PLACES,)),
        ("null_hart", "i8", (NULL_PLACES,)),
        ("null_address", "i8", (NULL_PLACES,)),
    ],
    align=True,
)


@inlined_step
def enter_wheel(wheel, harts, cycle):
    """Let harts be due in a cycle; one that the wheel does not reach yet is entered again."""
    slot = min(cycle, wheel["now"] + SLOTS - 1)
    wheel["slots"][np.uint64(slot) % np.uint64(SLOTS)] |= harts
    wheel["due"] |= harts


@inlined_step
def schedule(chip, h, cycle):
    """Let a hart go on, or ask, in a cycle."""
    chip.harts[np.uint64(h)]["when"] = cycle
    enter_wheel(chip.wheel[0], bit(h), cycle)


@inlined_step
def wake_ports(wheel, cycle):
    """Let the masters of L2's ports act in a cycle."""
    if cycle < wheel["ports"]:  # NEVER is none
        wheel["ports"] = cycle
        enter_wheel(wheel, bit(PORTS), cycle)

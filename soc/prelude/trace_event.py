"""The events of a trace: 16 bytes each. What their fields mean depends on their kind:

    kind        hart         extra                      a          b
    ISSUE       hart         0                          pc         word, of 16 bits or 32
    STALL       hart         cause, of counters.CAUSES  pc, or 0   cycles in which it issues nothing
    MEMORY      hart         STORE, OUTSIDE_L1, ...     address    pc
    CONFLICT    initiator    bank | winner << 8         pc or 0    address
    DMA         initiator    1: writes L1               address    0
    TRANSFER    who asked    0 started, 1 done          id         bytes of a command that starts
    SLEEP       hart         1: at a barrier            pc         cycles until it goes on
    REGION      hart         number of the region       1 begins   pc
                                                        0 ends
    VALUE       hart         register, or STORED, ...   value      pc

An issue, a grant, a lost arbitration are noted in their cycle, stalls and sleep in their first one.
A stall has the pc of the instruction that waits: of a load whose bank is taken, of a
branch, but of what waits for an operand or for its fetch; none where the hart is off. RI5CY's
fences issue, but the counters know only their stalls: these begin in the cycle of the issue. A
memory access of two halves has two events, each with the address of its half. A transfer of the DMA
has an id, maybe for several commands; it is done when they all are. Who asked for it is a hart: the
DMA's control ports beyond those of the cores count as the fabric controller's. Values, which are
recorded where they are asked for alone, are those that an instruction writes as it issues, or has
loaded or stored as its access is done, marked AT_GRANT then.
"""

from enum import IntEnum

import numpy as np

EVENT = np.dtype(
    [
        ("cycle", "<u4"),  # since the trace's first_cycle
        ("kind", "u1"),
        ("hart", "u1"),  # in the order of the chip's harts, or an initiator of L1
        ("extra", "<u2"),
        ("a", "<u4"),
        ("b", "<u4"),
    ]
)


class Kind(IntEnum):
    """What an event tells."""

    ISSUE = 1
    STALL = 2
    MEMORY = 3
    CONFLICT = 4
    DMA = 5
    TRANSFER = 6
    SLEEP = 7
    REGION = 8
    VALUE = 9


STORE, OUTSIDE_L1, SECOND_HALF = 1, 2, 4
"""Bits of a MEMORY event's `extra`."""
SIZE_SHIFT = 4
"""Its bits 4 and 5 are log2 of the bytes that the instruction accesses."""

UNASKED = frozenset(Kind) - {Kind.VALUE}
"""Kinds that are recorded where none are named."""

AT_GRANT, STORED = 0x100, 0x200
"""Bits of a VALUE event's `extra`, beside the register's entry in the file."""

CORRECTION = 32
"""Added to a kind in the recorder's buffer: the event takes the place of one written before."""

SORTED_CYCLES = 1 << 16
"""Cycles at most that the events in the buffer span where they are sorted by compiled code."""

RECORDER = np.dtype(
    [
        ("count", "i8"),  # events in the buffer
        ("limit", "i8"),  # of them; at so many the loop returns
        ("first", "i8"),  # cycle from which events count
        ("cycles", "u8"),  # in which events are noted, from the first on
        ("kinds", "u8"),  # that are noted, a bit each, corrections of them too
        ("harts", "u8"),  # a bit each, initiators of L1 among them
        ("watched", "i8"),  # from this address of L2 to the other, see soc.core.sync_points
        ("watched_end", "i8"),
        ("first_pc", "u8"),  # of the instructions whose issue is noted
        ("pcs", "u8"),  # bytes from there on
        ("first_address", "u8"),  # of the harts' accesses that are noted
        ("addresses", "u8"),
    ]
)
"""What is recorded, part of the chip's state. All zeros: nothing."""

ALL_ADDRESSES = 1 << 32
"""Bytes: `pcs` and `addresses` where these do not matter."""

"""Shadow memory: what the checks keep of each byte, each hart, each way to synchronise.

A byte's number is its offset in L1, or the size of L1 and its offset in L2. `bytes` has a state for
each, a word's together; `cells` has who accessed it last. A cell stands for its word as long as all
of that word's bytes have the same past, else for its byte.

A thread is a hart, or the copies of one counter of the DMA: `harts` + the counter. A time of a
thread is its clock << TIME_SHIFT | its number; clocks begin with 1, so 0 is no time.
"""

from collections.abc import Mapping

import numpy as np

from soc.address_map.registers import BARRIERS, CORES, MUTEXES
from soc.event_unit.state import FIFO

HARTS = CORES + 1
COUNTERS = 16
THREADS = HARTS + COUNTERS
LINES = 32

TIME_SHIFT = 6
THREAD = (1 << TIME_SHIFT) - 1
SHARED = 1 << 62
"""In a cell's `read`: several threads have read without an order; the rest is the place of their
times in `readers`."""

WRITTEN, GIVEN, READ_ONLY, FILLING, DRAINING, SYNC, SPLIT, PADDED = (1 << bit for bit in range(8))
"""Bits of a byte's state: it has been written; the program has it, and may write it or not; a copy
that no hart has waited for writes it, reads it; harts synchronise by it; bytes of the word have
cells of their own (in its first byte); it may be padding, loaded with the element before it."""

CELL = np.dtype(
    [
        ("write", "i8"),  # time of the last write
        ("read", "i8"),  # of the last read, or SHARED
        ("write_cycle", "i8"),
        ("read_cycle", "i8"),
        ("write_pc", "u4"),
        ("read_pc", "u4"),
    ],
    align=True,
)

READER = np.dtype([("clock", "i8"), ("cycle", "i8"), ("pc", "u4")], align=True)
"""When a thread has read. The `clock` of a free place's first one: the next free place."""

MOST_COPIES = 128
COPY = np.dtype(
    [
        ("is_open", "i8"),  # no hart has waited for it
        ("is_done", "i8"),
        ("counter", "i8"),
        ("hart", "i8"),  # who started it
        ("cycle", "i8"),
        ("pc", "i8"),
        ("to_l1", "i8"),
        ("increment", "i8"),
        ("l1", "i8"),  # offset
        ("l2", "i8"),  # address
        ("length", "i8"),
        ("l1_line", "i8"),
        ("l1_stride", "i8"),
        ("l2_line", "i8"),
        ("l2_stride", "i8"),
    ]
)

REGISTER_BLOCKS = 64
SYNC_WORDS = 1024
MOST_FINDINGS = 256

CHECK = np.dtype(
    [
        ("memory", "i8"),  # which checks are made
        ("races", "i8"),
        ("performance", "i8"),
        ("threads", "i8"),
        ("cores", "i8"),
        ("findings", "i8"),  # how many there are
        ("dropped", "i8"),  # for which there was no room
        ("rest", "i8", (HARTS,)),  # bytes of an access that are left for its second half
        ("site_cycle", "i8", (HARTS,)),  # of the last access to a register
        ("site_pc", "i8", (HARTS,)),
        # clocks: what each thread knows of each other one
        ("clock", "i8", (THREADS, THREADS)),
        ("event", "i8", (CORES, LINES, THREADS)),  # what the event lines of a core bring
        ("barrier", "i8", (BARRIERS, THREADS)),
        ("mutex", "i8", (MUTEXES, THREADS)),
        ("dispatch", "i8", (FIFO, THREADS)),
        ("bench", "i8", (THREADS,)),  # the barrier of a test bench
        ("port", "i8", (HARTS, THREADS)),  # the last store to a port of the DMA
        ("begun", "i8", (COUNTERS, THREADS)),  # copies
        ("ended", "i8", (COUNTERS, THREADS)),
        ("signalled", "i8", (CORES, 2)),  # counters whose end the DMA's lines tell of, a bit each
        ("asking", "i8", (HARTS,)),  # address of a request to a peripheral, 0: none
        ("block", "i8", (REGISTER_BLOCKS,)),  # peripherals by address, and what they pass on
        ("block_clock", "i8", (REGISTER_BLOCKS, THREADS)),
        ("sync_word", "i8", (SYNC_WORDS,)),  # number of the word + 1
        ("sync_clock", "i8", (SYNC_WORDS, THREADS)),
        # the DMA
        ("command", "i8", (8,)),  # parts that have come of a command
        ("copy", COPY, (MOST_COPIES,)),
        ("holder", "i8", (COUNTERS,)),  # hart that has allocated a counter, or -1
        ("held_cycle", "i8", (COUNTERS,)),
        ("held_pc", "i8", (COUNTERS,)),
        # places in `readers`
        ("places", "i8"),
        ("used", "i8"),
        ("free", "i8"),  # the first of those given back + 1
        ("lost", "i8"),  # reads for which there was no place
    ],
    align=True,
)

FINDING = np.dtype(
    [
        ("kind", "i8"),
        ("byte", "i8"),  # its number
        ("size", "i8"),
        ("count", "i8"),  # how often between these two instructions
        ("thread", "i8", (2,)),  # the access that was found, and the earlier one, or -1
        ("cycle", "i8", (2,)),
        ("pc", "i8", (2,)),
        ("is_write", "i8", (2,)),
        ("hart", "i8", (2,)),  # who did it, or started the copy
    ]
)

SITE = np.dtype(
    [
        ("accesses", "u4"),
        ("conflicts", "u4"),
        ("distance", "i4"),  # between what two cores ask for, most often; and votes for it
        ("votes", "i4"),
        ("last", "u4", (HARTS,)),  # address of each hart's last access
    ],
    align=True,
)
"""What conflicts at the banks an instruction had."""

ARRAYS: Mapping[str, np.dtype] = {
    "check": CHECK,  # [1]
    "bytes": np.dtype(np.uint32),  # [words of L1 and L2]
    "cells": CELL,  # [bytes of L1 and L2]
    "readers": READER,  # [places * threads]
    "seen": np.dtype(np.uint32),  # [words * harts]: what races.check_read knows
    "findings": FINDING,  # [MOST_FINDINGS]
    "sites": SITE,  # [rows of code]
}
"""The arrays of a chip that is checked; of another one they are empty."""

"""A bank of the shared instruction cache, as the RTL's state machine.

It takes one request per cycle, chosen by a counting round-robin arbiter.

    OPERATE     looks up the request that it took the cycle before; a hit is answered and, in the
                same cycle, the next request taken
    MISSED      asks for the line's refill: up to `refills` are under way, answered in order
    FILL        writes a line that has come and answers the hart that asked for it first
    MERGE       holds a request for a line that is under way until it comes; takes no other
    MERGE_FILL  writes that line, or another that comes first, and answers who asked for it
    MERGE_LOOK  MERGE_HIT   look the held request up again, answer it
    MISSED_FILL a line has come before the refill could be asked for
    BYPASS      the caches are off: every fetch is a refill, nothing is kept
    EMPTY       invalidates one set per cycle

An answer takes one more cycle to the hart (refill_arbiter.sv, USE_RESP_BUFF).

Sources: hier-icache v1.3.0 share_icache_controller.sv, RefillTracker_4.sv; icache_intc; lfsr_8bit.
"""

import numpy as np

from soc.icache.prefetch_buffer import fetch_arrives
from soc.icache.private_cache import missing_line, next_lfsr
from soc.interconnect.rr_arbiter import arbitrate_counting
from soc.prelude.bits import bit
from soc.prelude.step import inlined_step, step
from soc.prelude.wheel import NEVER

OPERATE, MISSED, FILL, MERGE, MERGE_FILL, MERGE_LOOK, MERGE_HIT, MISSED_FILL, BYPASS, EMPTY = range(
    10
)
"""States of a shared bank."""

BANK_LINES = 1024  # that a record can hold
REFILLS = 8
NONE = -1

ADDRESS_BUFFER = 2  # share_icache.sv, axi_ar_buffer: BUFFER_DEPTH
ANSWER_CYCLES = 1  # refill_arbiter.sv, USE_RESP_BUFF

SHARED_BANK = np.dtype(
    [
        ("state", "i8"),
        ("requests", "u8"),  # harts that ask
        ("rr", "i8"),
        ("hart", "i8"),  # of the request being looked up, or NONE
        ("line", "i8"),
        ("lfsr", "i8"),
        ("first", "i8"),  # refills under way, a ring
        ("count", "i8"),
        ("refill_hart", "i8", (REFILLS,)),
        ("refill_line", "i8", (REFILLS,)),
        ("refill_way", "i8", (REFILLS,)),
        ("unsent", "i8"),  # the last so many of them wait for the address channel
        ("asked", "i8"),  # one more from this cycle on
        ("arrived", "i8"),  # the first one's line is complete
        ("taken", "i8"),  # and leaves its buffer in this cycle
        ("order", "i8"),  # state to go to when nothing is under way, EMPTY or BYPASS; or NONE
        ("empty_until", "i8"),  # EMPTY: the cycle in which it operates again
        ("hits", "i8"),
        ("misses", "i8"),
        ("merged", "i8"),
        ("lines", "i8", (BANK_LINES,)),  # address / 16, or NONE; by set * ways + way
    ],
    align=True,
)


@inlined_step
def icache_note(icache, fetch, h):
    """Take note of a miss that hart h has run into; to be called after each of its advances."""
    if fetch["fresh"]:
        fetch["fresh"] = 0
        icache["listed"] |= bit(h)
        icache["due"][h] = fetch["miss"] + 1
        icache["wake"] = min(icache["wake"], fetch["miss"] + 1)


@step
def _first_way(icache, line):
    """Return the index of a line's first way."""
    return (line >> icache["bank_bits"] & (icache["sets"] - 1)) * icache["ways"]


@step
def _hits(icache, bank):
    """Is the line of the request that was taken in the bank?"""
    first = _first_way(icache, bank["line"])
    for way in range(icache["ways"]):
        if bank["lines"][np.uint64(first + way)] == bank["line"]:
            return True
    return False


@step
def _is_under_way(bank):
    """Is its refill?"""
    for k in range(bank["count"]):
        if bank["refill_line"][(bank["first"] + k) % REFILLS] == bank["line"]:
            return True
    return False


@step
def _answer(icache, fetch, h, cycle):
    """The bank puts a hart's line out in this cycle."""
    fetch_arrives(fetch[h], cycle + ANSWER_CYCLES)
    icache_note(icache, fetch[h], h)
    icache["answered"] |= bit(h)


@step
def _take_request(icache, fetch, bank):
    """Take one of the requests, if there is any, into the look-up stage."""
    if bank["requests"] == 0:
        return
    winner, bank["rr"], bank["requests"] = arbitrate_counting(
        bank["requests"], bank["rr"], icache["ports"] - 1
    )
    bank["hart"] = winner
    bank["line"] = missing_line(fetch[winner])


@step
def _ask_refill(bank, way):
    """Enter the request that was taken into the refills, for this way."""
    place = (bank["first"] + bank["count"]) % REFILLS
    bank["refill_hart"][place] = bank["hart"]
    bank["refill_line"][place] = bank["line"]
    bank["refill_way"][place] = way
    bank["count"] += 1
    bank["asked"] = 1
    bank["hart"] = NONE


@step
def _end_refill(icache, fetch, bank, now):
    """Write the line that has come and answer the hart that asked for it."""
    place = bank["first"]
    line = bank["refill_line"][place]
    way = bank["refill_way"][place]
    if way != NONE:
        bank["lines"][_first_way(icache, line) + way] = line
    bank["first"] = (place + 1) % REFILLS
    bank["count"] -= 1
    bank["taken"] = 1
    _answer(icache, fetch, bank["refill_hart"][place], now)


@inlined_step
def _has_room(icache, bank):
    """Can a refill be asked for?"""
    return bank["count"] < icache["refills"] and bank["unsent"] < ADDRESS_BUFFER


@step
def _obey(icache, bank, begin):
    """Invalidate the bank, set by set from cycle `begin` on, or pass by it, if it is drained."""
    if bank["count"] == 0:
        for k in range(BANK_LINES):
            bank["lines"][k] = NONE
        bank["state"] = bank["order"]
        bank["order"] = NONE
        bank["empty_until"] = begin + icache["sets"]


@step
def _operate(icache, fetch, bank, now):
    """One cycle in state OPERATE. A hit is known, and answered, one cycle ahead."""
    if bank["hart"] != NONE:
        if _is_under_way(bank):
            bank["state"] = MERGE_FILL if bank["arrived"] else MERGE
            bank["merged"] += 1
        else:
            bank["state"] = FILL if bank["arrived"] else MISSED
    elif bank["arrived"]:
        bank["state"] = FILL
    elif bank["order"] != NONE:
        _obey(icache, bank, now + 1)
    else:
        _take_request(icache, fetch, bank)
        if bank["hart"] != NONE and _hits(icache, bank):
            bank["hits"] += 1
            _answer(icache, fetch, bank["hart"], now + 1)
            bank["hart"] = NONE


@step
def _pass_by(icache, fetch, bank, now):
    """One cycle in state BYPASS."""
    if bank["order"] != NONE:
        _obey(icache, bank, now + 2)
    elif _has_room(icache, bank):
        _take_request(icache, fetch, bank)
        if bank["hart"] != NONE:
            _ask_refill(bank, NONE)
    if bank["arrived"]:
        _end_refill(icache, fetch, bank, now)


@step
def step_bank(icache, fetch, bank, now):
    """One cycle of a bank."""
    state = bank["state"]
    if state == EMPTY and now >= bank["empty_until"]:
        state = bank["state"] = OPERATE
    if state == OPERATE:
        _operate(icache, fetch, bank, now)
    elif state == FILL or state == MERGE_FILL or state == MISSED_FILL:
        after = MERGE_LOOK if state == MERGE_FILL else MISSED
        bank["state"] = OPERATE if state == FILL else after
        _end_refill(icache, fetch, bank, now)
    elif state == MERGE_HIT:
        bank["state"] = OPERATE
        _answer(icache, fetch, bank["hart"], now)
        bank["hart"] = NONE
    elif state == BYPASS:
        _pass_by(icache, fetch, bank, now)
    elif state == MERGE_LOOK:
        bank["state"] = MERGE if _is_under_way(bank) else MERGE_HIT
    elif bank["arrived"]:
        bank["state"] = MERGE_FILL if state == MERGE else MISSED_FILL
    elif state == MISSED and _has_room(icache, bank):
        _ask_refill(bank, bank["lfsr"] & (icache["ways"] - 1))
        bank["lfsr"] = next_lfsr(bank["lfsr"])
        bank["misses"] += 1
        bank["state"] = OPERATE


@step
def end_cycle(bank, now):
    """Let what was asked for and taken count from the next cycle on; returns when to step again."""
    bank["unsent"] += bank["asked"]
    bank["arrived"] -= bank["taken"]
    bank["asked"] = bank["taken"] = 0
    state = bank["state"]
    if bank["arrived"] or bank["unsent"]:
        return now + 1
    if state == EMPTY:
        return bank["empty_until"]
    if state == MERGE or (bank["order"] != NONE and bank["count"]):
        return NEVER
    if state == OPERATE or state == BYPASS:
        active = bank["requests"] != 0 or bank["hart"] != NONE or bank["order"] != NONE
        return now + 1 if active else NEVER
    return now + 1

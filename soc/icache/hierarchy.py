"""The cluster's instruction cache: private caches, shared banks, refills from L2.

    hart -> prefetch buffer (fetch.py) -> private_cache.py -> icache_bank.py -> AXI port (l2.py)

Line n (address / 16) lies in bank n % banks. A hart's miss asks its bank in the cycle after the
fetch; a line that is in no cache takes one burst of two beats.

Sources: hier-icache v1.3.0 icache_hier_top.sv, share_icache.sv, hier_icache_ctrl_unit.sv. The loops
measured on RTL come out equal, with one hart and with eight. Prefetch from the shared to the
private level (off at reset) is not modelled.
"""

from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from soc.icache.prefetch_buffer import fetch_control, fetch_send
from soc.icache.private_cache import LINE_BYTES, PRIVATE_LINES, missing_line
from soc.icache.shared_bank import (
    BANK_LINES,
    BYPASS,
    EMPTY,
    REFILLS,
    SHARED_BANK,
    end_cycle,
    icache_note,
    step_bank,
)
from soc.interconnect.axi_l2 import READ, l2_burst, l2_read_gap
from soc.interconnect.rr_arbiter import arbitrate
from soc.prelude.bits import bit, lowest_index
from soc.prelude.field import setting
from soc.prelude.step import step
from soc.prelude.wheel import NEVER

BANKS = 4  # that the records hold
HARTS = 64
LINE_BEATS = 2

# Cycles from the write of the control register to the first set that is invalidated,
# hier_icache_ctrl_unit.sv (RTL text).
EMPTIES = 2


class IcacheSpec(BaseModel):
    """Fields of the instruction cache."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["hierarchical", "ideal"] = setting(
        "hierarchical",
        "",
        "pulp_cluster: hier-icache; ideal: every fetch is answered in the next cycle",
    )
    enabled: bool = setting(
        False, "", "hier_icache_ctrl_unit.sv: off at reset, every fetch goes past it to L2"
    )
    private_size: int = setting(512, "bytes", "pulp_cluster: icache of a core", ge=LINE_BYTES)
    private_ways: int = setting(4, "ways", "pulp_cluster", ge=1, le=16)
    shared_size: int = setting(4096, "bytes", "pulp_cluster: all banks", ge=LINE_BYTES)
    shared_ways: int = setting(4, "ways", "pulp_cluster", ge=1, le=16)
    banks: int = setting(2, "banks", "pulp_cluster: shared banks", ge=1, le=BANKS)
    refills: int = setting(
        4, "refills", "share_icache_controller.sv: ADDRESS_WAY_REFILL_FIFO", ge=1, le=REFILLS
    )

    @model_validator(mode="after")
    def _powers_of_two(self) -> "IcacheSpec":
        for name in ("private_size", "private_ways", "shared_size", "shared_ways", "banks"):
            value = getattr(self, name)
            if value & (value - 1):
                raise ValueError(f"{name} is {value}; it is a power of two")
        bank_size = self.shared_size // self.banks
        for name, size, ways, lines in (
            ("private_size", self.private_size, self.private_ways, PRIVATE_LINES),
            ("shared_size / banks", bank_size, self.shared_ways, BANK_LINES),
        ):
            if not LINE_BYTES * ways <= size <= LINE_BYTES * lines:
                raise ValueError(
                    f"{name} is {size}; with {ways} ways of {LINE_BYTES}-byte lines it is "
                    f"{LINE_BYTES * ways} to {LINE_BYTES * lines} bytes"
                )
        return self


ICACHE = np.dtype(
    [
        ("ports", "i8"),  # of a bank's arbiter: harts, rounded up to a power of two
        ("banks", "i8"),
        ("bank_bits", "i8"),
        ("sets", "i8"),  # of a bank
        ("ways", "i8"),
        ("refills", "i8"),
        ("private_sets", "i8"),
        ("answered", "u8"),  # harts, in the cycle that is simulated
        ("wake", "i8"),  # next cycle to step, or NEVER
        ("listed", "u8"),  # harts whose miss has still to reach the banks
        ("due", "i8", (HARTS,)),  # the cycle in which it does
        ("address_turn", "i8"),  # round robin of the banks' address channels
        ("read_first", "i8"),  # refills that L2 answers, a ring in order of their addresses
        ("read_count", "i8"),
        ("read_bank", "i8", (BANKS * REFILLS,)),
        ("read_cycle", "i8", (BANKS * REFILLS,)),  # of the first beat
        ("read_gap", "i8", (BANKS * REFILLS,)),  # cycles from a beat to the next
        ("read_beats", "i8"),  # of the first one, taken
        ("bank", SHARED_BANK, (BANKS,)),
    ],
    align=True,
)


@step
def _collect(icache, fetch, now):
    """Let the misses whose cycle has come ask their bank, unless a jump took them back.

    Returns the cycle of the next ones, or NEVER.
    """
    following = NEVER
    rest = icache["listed"]
    while rest:
        h = np.uint64(lowest_index(rest))
        rest &= rest - np.uint64(1)
        due = icache["due"][h]
        if due > now:
            following = min(following, due)
            continue
        icache["listed"] &= ~bit(h)
        if fetch[h]["miss"] < now and fetch[h]["sent"] == 0:
            fetch_send(fetch[h])
            bank = icache["bank"][np.uint64(missing_line(fetch[h]) & (icache["banks"] - 1))]
            bank["requests"] |= bit(h)
    return following


@step
def _send_address(icache, l2, now):
    """Put one bank's oldest unsent refill on the AXI port; the banks' turns: rr_arb_tree."""
    ready = np.uint64(0)
    for b in range(icache["banks"]):
        if icache["bank"][b]["unsent"]:
            ready |= bit(b)
    if ready == 0:
        return
    chosen, icache["address_turn"], _ = arbitrate(ready, icache["address_turn"])
    bank = icache["bank"][chosen]
    line = bank["refill_line"][(bank["first"] + bank["count"] - bank["unsent"]) % REFILLS]
    bank["unsent"] -= 1
    place = (icache["read_first"] + icache["read_count"]) % (BANKS * REFILLS)
    icache["read_bank"][place] = chosen
    address = line * LINE_BYTES
    icache["read_cycle"][place] = l2_burst(l2, now, address, LINE_BEATS, READ)
    icache["read_gap"][place] = l2_read_gap(l2, address)
    icache["read_count"] += 1


@step
def _next_beat(icache):
    """Return the cycle from which the next read beat is on the port."""
    place = icache["read_first"]
    return icache["read_cycle"][place] + icache["read_beats"] * icache["read_gap"][place]


@step
def _receive_beat(icache, now):
    """Take a read beat, if its bank has handed the line before on."""
    place = icache["read_first"]
    if icache["read_count"] == 0 or now < _next_beat(icache):
        return
    bank = icache["bank"][icache["read_bank"][place]]
    if bank["arrived"]:
        return
    icache["read_beats"] += 1
    if icache["read_beats"] == LINE_BEATS:
        icache["read_beats"] = 0
        icache["read_first"] = (place + 1) % (BANKS * REFILLS)
        icache["read_count"] -= 1
        bank["arrived"] = 1


@step
def icache_step(icache, fetch, l2, now):
    """Simulate the shared banks in this cycle.

    To be called in cycle icache["wake"], after the harts that act in it.

    returns   harts whose next line's cycle is known now, the next one or later: those that wait for
              it can go on
    """
    icache["answered"] = np.uint64(0)
    icache["wake"] = _collect(icache, fetch, now)  # misses that answers lead to may come sooner
    for b in range(icache["banks"]):
        step_bank(icache, fetch, icache["bank"][np.uint64(b)], now)
    _send_address(icache, l2, now)
    _receive_beat(icache, now)
    wake = icache["wake"]
    for b in range(icache["banks"]):
        wake = min(wake, end_cycle(icache["bank"][np.uint64(b)], now))
    if icache["read_count"]:
        wake = min(wake, max(_next_beat(icache), now + 1))
    icache["wake"] = wake
    return icache["answered"]


@step
def private_flush(icache, fetch, h, pc, now):
    """Invalidate a hart's private cache; pc is that of the instruction to be handed over next."""
    grants = now + EMPTIES + fetch["sets"]
    fetch_control(fetch, pc, grants, fetch["enabled"])
    icache_note(icache, fetch, h)


@step
def private_switch(icache, fetch, h, pc, now, on):
    """Switch a hart's private cache on or off; pc as in private_flush."""
    if fetch["enabled"] != on:
        grants = now + EMPTIES + (fetch["sets"] if on else 0)
        fetch_control(fetch, pc, grants, on)
        icache_note(icache, fetch, h)


@step
def banks_flush(icache, now):
    """Invalidate the shared banks, as soon as no line is under way."""
    for b in range(icache["banks"]):
        if icache["bank"][b]["state"] != BYPASS:
            icache["bank"][b]["order"] = EMPTY
    icache["wake"] = min(icache["wake"], now + 1)


@step
def banks_switch(icache, now, on):
    """Switch the shared banks on or off, as soon as no line is under way."""
    for b in range(icache["banks"]):
        bank = icache["bank"][b]
        if on == (bank["state"] == BYPASS):
            bank["order"] = EMPTY if on else BYPASS
    icache["wake"] = min(icache["wake"], now + 1)

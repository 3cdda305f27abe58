"""L1 scratchpad (TCDM): word-interleaved single-cycle banks behind a logarithmic interconnect.

Each bank has one arbiter, an rr_arb_tree with LockIn and FairArb. Of the initiators that request it
in a cycle the one nearest to `rr` is served, near meaning the smallest (initiator XOR rr): the tree
follows the bits of rr, most significant at the root. Losers ask again in the next cycle.

Source: tcdm_interconnect and rr_arb_tree (common_cells), checked against 69,957 grants of the RTL.
"""

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from soc.bits import bit, lowest_index
from soc.setting import setting
from soc.step import inlined_step

EXTERNAL_PORTS = 4
DMA_PORTS = 4

UPPER_HALVES = np.array(
    [sum(1 << k for k in range(64) if k >> level & 1) for level in range(6)], np.uint64
)
"""Initiators whose number has the bit of a level."""


class L1Spec(BaseModel):
    """Fields of the L1 memory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: int = setting(0x10000000, "address", "pulp memory map: TCDM", multiple_of=4)
    size: int = setting(
        64 * 1024, "bytes", "PULP-TrainLib's PULP: 64 kB", ge=64, le=1 << 20, multiple_of=4
    )
    banks: int = setting(16, "banks", "pulp_cluster: NbTcdmBanks", ge=1, le=64)

    @model_validator(mode="after")
    def _whole_rows(self) -> "L1Spec":
        if self.banks & (self.banks - 1):
            raise ValueError(f"banks is {self.banks}; the number of banks is a power of two")
        if self.size % (4 * self.banks):
            raise ValueError(f"size {self.size} is not a whole number of {self.banks}-word rows")
        if self.base % (4 * self.banks):
            raise ValueError(f"base {self.base:#x} is not the start of a {self.banks}-word row")
        return self


@inlined_step
def nearest(requests, rr, levels=6):
    """Return the requesting initiator that minimises (initiator XOR rr); there is one.

    Down the tree: at each level the half that rr points to, if anyone in it requests.

    levels    of the tree, for 2**levels initiators
    """
    for level in range(6 - levels, 6):
        half = UPPER_HALVES[5 - level]
        if rr >> 5 - level & 1 == 0:
            half = ~half
        nearer = requests & half
        requests = nearer if nearer else requests
    return lowest_index(requests)


@inlined_step
def nearest_of_several(requests, rr, levels=6):
    """The same of two or more initiators; mostly it is two."""
    others = requests & requests - np.uint64(1)
    if others & others - np.uint64(1):
        return nearest(requests, rr, levels)
    first, last = lowest_index(requests), lowest_index(others)
    return first if (first ^ rr) < (last ^ rr) else last


@inlined_step
def next_rr(requests, rr):
    """Return the arbiter's next state: the lowest requester above rr, else the lowest of all."""
    above = requests & ~((np.uint64(2) << np.uint64(rr)) - np.uint64(1))
    return lowest_index(above if above else requests)


@inlined_step
def ask_bank(bank, initiator, now):
    """Put a request to a bank in this cycle; when all are there, the winner is known.

    NOTE: no branches, since nobody can predict them: a request of an earlier cycle counts as none.
    """
    is_first = bank["asked"] != now
    key = initiator ^ bank["rr"]
    wins = is_first | (key < bank["key"])
    bank["asked"] = now
    bank["requests"] = bit(initiator) | (np.uint64(0) if is_first else bank["requests"])
    bank["key"] = key if wins else bank["key"]
    bank["winner"] = initiator if wins else bank["winner"]


@inlined_step
def choose(bank, initiator):
    """Let a request of this cycle win, or wait; returns 1 or 0."""
    granted = np.int64(bank["winner"] == initiator)
    bank["rr"] = next_rr(bank["requests"], bank["rr"]) if granted else bank["rr"]
    bank["conflicts"] += 1 - granted
    return granted


@inlined_step
def grant_bank(bank, initiator):
    """The same, and serve it if it wins."""
    granted = choose(bank, initiator)
    bank["accesses"] += granted
    return granted

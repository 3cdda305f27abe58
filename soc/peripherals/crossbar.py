"""The cluster's peripheral interconnect: cores and the SoC's port reach each target in turns.

Each target serves one request a cycle, chosen by a round-robin arbiter as at L1's banks. Source:
pulp_cluster xbar_pe_wrap.sv (rr_arb_tree).
"""

from functools import cache

import numpy as np

from soc.interconnect.rr_arbiter import arbitrate


@cache
def choice(requests: int, rr: int) -> tuple[int, int, int]:
    """The winner among a set of requesters, the others, and the next rr."""
    winner, following, _ = arbitrate(np.uint64(requests), rr)
    return int(winner), requests & ~(1 << int(winner)), int(following)


class Target:
    """A target of the crossbar.

    Whoever drives it calls `choose` once in each cycle for which `ask` or `is_turn` said True.

    State
        asking      set of requesters: who waits, or will
        turns       cycles in which it chooses, and who asks from then on
        waiting     who asks already
        rr          requester that is nearest to be served
        free_from   cycle
        is_taken    by a requester that keeps it
    """

    def __init__(self) -> None:
        self.turns: dict[int, int] = {}
        self.asking = self.waiting = self.rr = self.free_from = 0
        self.is_taken = False

    def ask(self, requester: int, cycle: int) -> bool:
        """Ask for it from this cycle on, a later one; is that one more cycle to choose in?"""
        turns, asks = self.turns, 1 << requester
        self.asking |= asks
        if cycle in turns:
            turns[cycle] |= asks
            return False
        turns[cycle] = asks
        return True

    def choose(self, now: int) -> int:
        """Who is served in this cycle: -1 if the target is not free, or no one asks."""
        waiting = self.waiting | self.turns.pop(now)
        if not waiting or self.is_taken or now < self.free_from:
            self.waiting = waiting
            return -1
        winner, self.waiting, self.rr = choice(waiting, self.rr)
        self.asking &= ~(1 << winner)
        self.free_from = now + 1
        return winner

    def is_turn(self, cycle: int) -> bool:
        """Let it choose in this cycle if anyone asks; is that one more cycle to choose in?"""
        if not self.asking or cycle in self.turns:
            return False
        self.turns[cycle] = 0
        return True

    def take(self) -> None:
        """Let whom it serves keep it, up to `free`."""
        self.is_taken = True

    def free(self, cycle: int) -> None:
        """Let it serve the next request from this cycle on."""
        self.is_taken = False
        self.free_from = cycle

"""Round-robin arbiters: trees of which each node prefers the side that the state `rr` points to.

The leaves look at bit 0 of rr, the root at the highest, so the winner is the requester with the
smallest (initiator XOR rr). Two kinds differ in how rr goes on: `arbitrate` is common_cells'
rr_arb_tree (LockIn, FairArb), `arbitrate_counting` has a counter.

    requests    set of initiators, uint64: one bit each, one at least

Sources: rr_arb_tree.sv (common_cells), checked against 69,957 grants of the RTL; icache_intc's and
MCHAN's arbiters, checked against 5,896 grants of icache_intc's.
"""

import numpy as np

from soc.prelude.bits import ONE, bit, lowest_index
from soc.prelude.step import inlined_step


@inlined_step
def _winner(requests, rr):
    winner = lowest_index(requests)
    rest = requests & requests - ONE
    while rest:
        other = lowest_index(rest)
        rest &= rest - ONE
        winner = other if (other ^ rr) < (winner ^ rr) else winner
    return winner


@inlined_step
def arbitrate(requests, rr):
    """Choose among requests; returns the winner, the next rr and the losers, as a set.

    The next rr is the lowest requester above rr; where there is none, the lowest of all.
    """
    winner = _winner(requests, rr)
    above = requests & ~((np.uint64(2) << np.uint64(rr)) - ONE)
    return winner, lowest_index(above if above else requests), requests & ~bit(winner)


@inlined_step
def arbitrate_counting(requests, rr, last):
    """Choose among requests; returns the winner, the next rr and the losers, as a set.

    The next rr is one more; 0 after that of the last input, whose number is 2**k - 1.
    """
    winner = _winner(requests, rr)
    return winner, rr + 1 & last, requests & ~bit(winner)

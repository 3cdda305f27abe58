"""Harts that have run ahead of a change to what they fetch, and how a run gets around that.

Between two requests a hart runs up to `lookahead` cycles ahead. Nothing reaches it there but two
things. A store switches or flushes the instruction cache, of which the others learn too late, since
it takes effect a few cycles after its request (access.cluster_register). A store changes how long
the instruction is to which a hart jumps, before any has come to it (decoded_index.is_split). Hardly
any program does so while other harts run. Then the run begins anew, and goes a cycle at a time for
a while: the same run, but no hart is ahead of the store. What it has printed is not printed again.
"""

import numpy as np

from soc.chip.state import Chip
from soc.icache.private_cache import IDEAL
from soc.prelude.hart_state import OFF
from soc.prelude.step import step

CAREFUL = 2
"""A run goes a cycle at a time up to so many times the cycle in which it was found to be ahead.

So it begins anew a few times at most, however often its program flushes the cache.
"""


class RanAheadError(Exception):
    """A hart has issued instructions past this cycle, which depend on it."""

    def __init__(self, cycle: int, what: str):
        super().__init__(f"a hart has run past cycle {cycle}, in which {what}")
        self.cycle = cycle


@step
def is_any_ahead(chip: Chip, cycle: int) -> bool:
    """Is a hart that fetches through the instruction cache past the start of this cycle?"""
    for h in range(chip.harts.size):
        hart = chip.harts[np.uint64(h)]
        if chip.fetch[np.uint64(h)]["mode"] != IDEAL and hart["state"] != OFF:
            if hart["issued"] >= cycle:
                return True
    return False

"""The cluster's peripheral interconnect: cores and the SoC's port reach each target in turns.

Each target serves one request a cycle; the winner is the requester nearest to a rotating priority,
as at L1's banks. Source: pulp_cluster xbar_pe_wrap.sv (rr_arb_tree).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable

from simpy import Environment

from soc.peripherals.later import later


class Crossbar:
    """Arbitrates the targets of the cluster's peripheral interconnect.

    Ports
        take    in    requester i asks for a target, and says what to call when it is its turn
        free    in    a target has served the requester whose turn it was
    """

    def __init__(self, env: Environment):
        self.env = env
        self.asking: dict[Hashable, dict[int, tuple[int, Callable]]] = defaultdict(dict)
        self.priority: dict[Hashable, int] = defaultdict(int)
        self.is_taken: dict[Hashable, bool] = defaultdict(bool)
        self.free_from: dict[Hashable, int] = defaultdict(int)

    def take(
        self, target: Hashable, requester: int, cycle: int, served: Callable[[], None]
    ) -> None:
        """Ask for a target from this cycle on, a later one; `served` is called in the turn."""
        self.asking[target][requester] = cycle, served
        self._choose_at(cycle, target)

    def free(self, target: Hashable, cycles: int) -> None:
        """Let a target, whose turn it was, serve the next request in so many cycles."""
        self.is_taken[target] = False
        self.free_from[target] = int(self.env.now) + cycles
        if self.asking[target]:
            self._choose_at(self.free_from[target], target)

    def _choose_at(self, cycle: int, target: Hashable) -> None:
        """Serve a request to a target in a cycle, if it is free and any is there."""
        later(self.env, cycle - self.env.now, self._choose, target)

    def _choose(self, target: Hashable) -> None:
        now = self.env.now
        asking = [i for i, (cycle, _) in self.asking[target].items() if cycle <= now]
        if self.is_taken[target] or now < self.free_from[target] or not asking:
            return
        priority = self.priority[target]
        winner = min(asking, key=lambda requester: requester ^ priority)
        self.priority[target] = min([i for i in asking if i > priority] or asking)
        self.is_taken[target] = True
        _, served = self.asking[target].pop(winner)
        served()

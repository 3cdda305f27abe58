"""The cluster's peripheral interconnect: cores and the SoC's port reach each target in turns.

Each target serves one request a cycle; the winner is the requester nearest to a rotating priority,
as at L1's banks. Source: pulp_cluster xbar_pe_wrap.sv (rr_arb_tree).
"""

from collections import defaultdict
from collections.abc import Hashable

from simpy import Environment, Event


class Crossbar:
    """Arbitrates the targets of the cluster's peripheral interconnect.

    Ports
        take    in    requester i asks for a target
        free    in    a target has served the requester whose turn it was
    """

    def __init__(self, env: Environment):
        self.env = env
        self.asking: dict[Hashable, dict[int, Event]] = defaultdict(dict)
        self.priority: dict[Hashable, int] = defaultdict(int)
        self.is_taken: dict[Hashable, bool] = defaultdict(bool)
        self.free_from: dict[Hashable, int] = defaultdict(int)

    def take(self, target: Hashable, requester: int) -> Event:
        """Ask for a target; returns the event of the turn, in the cycle in which it is served."""
        turn = self.asking[target][requester] = self.env.event()
        if not self.is_taken[target]:
            self.is_taken[target] = True
            self._choose_in(max(0, self.free_from[target] - int(self.env.now)), target)
        return turn

    def free(self, target: Hashable, cycles: int) -> None:
        """Let a target serve the next request in so many cycles."""
        self.free_from[target] = int(self.env.now) + cycles
        if self.asking[target]:
            self._choose_in(cycles, target)
        else:
            self.is_taken[target] = False

    def _choose_in(self, cycles: int, target: Hashable) -> None:
        """Serve a target's next request then, when all of that cycle have asked."""
        wait = self.env.timeout(cycles)
        if cycles:
            wait.callbacks.append(lambda _: self._choose_in(0, target))
        else:
            wait.callbacks.append(lambda _: self._choose(target))

    def _choose(self, target: Hashable) -> None:
        asking, priority = self.asking[target], self.priority[target]
        winner = min(asking, key=lambda requester: requester ^ priority)
        above = [requester for requester in asking if requester > priority]
        self.priority[target] = min(above or asking)
        asking.pop(winner).succeed()

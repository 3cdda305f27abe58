"""The cluster's peripheral interconnect: cores and the SoC's port reach each target in turns.

Each target serves one request a cycle; the winner is the requester nearest to a rotating priority,
as at L1's banks. Source: pulp_cluster xbar_pe_wrap.sv (rr_arb_tree).
"""

from collections import defaultdict
from collections.abc import Generator, Hashable

from simpy import Environment, Event


class Crossbar:
    """Arbitrates the targets of the cluster's peripheral interconnect.

    Ports
        take    in    requester i asks for a target; goes on in the cycle in which it is served
    """

    def __init__(self, env: Environment):
        self.env = env
        self.asking: dict[Hashable, dict[int, tuple[Event, Event]]] = defaultdict(dict)
        self.priority: dict[Hashable, int] = defaultdict(int)
        self.is_served: dict[Hashable, bool] = defaultdict(bool)

    def take(self, target: Hashable, requester: int) -> Generator[Event, None, Event]:
        """Wait for the turn; returns the event by which the target says that it is free again.

        Its value is the number of cycles until then.
        """
        turn, free = self.env.event(), self.env.event()
        self.asking[target][requester] = turn, free
        if not self.is_served[target]:
            self.is_served[target] = True
            self._choose_in(0, target)
        yield turn
        return free

    def _choose_in(self, cycles: int, target: Hashable) -> None:
        """Serve a target's next request then, when all of that cycle have asked."""
        wait = self.env.timeout(cycles)
        if cycles:
            wait.callbacks.append(lambda _: self._choose_in(0, target))
        else:
            wait.callbacks.append(lambda _: self._choose(target))

    def _choose(self, target: Hashable) -> None:
        asking = self.asking[target]
        if not asking:
            self.is_served[target] = False
            return
        priority = self.priority[target]
        winner = min(asking, key=lambda requester: requester ^ priority)
        above = [requester for requester in asking if requester > priority]
        self.priority[target] = min(above or asking)
        turn, free = asking.pop(winner)
        turn.succeed()
        free.callbacks.append(lambda _: self._choose_in(int(free.value or 0), target))

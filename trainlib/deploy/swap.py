"""Values that lie in the HyperRAM between two of their uses, where L2 is too small for a step.

A value keeps its address in L2. Between two nodes that use it, it may be absent: it is copied out
after the first one, and back before the second one, and others lie there meanwhile. Copies take
place one after the other, in a fixed order (see trainlib.deploy.swap_order), beside what the cores
compute. Each has a gate: the node that must have begun before it may start. So a node waits only
for the copies that it needs: those that bring its operands, and those that empty the places which
it writes to.

Which values, and when, is chosen with estimates of cycles; that a program is right does not depend
on them. Where most is there at the same time, the value is taken that is not used for longest.
Parameters and states of the optimiser may lie in the HyperRAM from their last use in a step to the
first one in the next: the host reads and writes them there. All else that a step begins and ends
with is in L2 then.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import numpy as np

from trainlib.deploy.graph.registry import written
from trainlib.deploy.graph.values import Graph, Node
from trainlib.deploy.memory import Block, Memory, filling, plan
from trainlib.deploy.schedule import Schedule
from trainlib.deploy.swap_order import PAGE, Absence, Copy, Gap, copy_cycles, ordered

ATTEMPTS = (1.3, 1.0), (1.0, 1.0), (1.0, 1 / 1.4), (1.0, 0.5), (0.0, 0.0)
"""How copies are planned, until there is room: the place of one to L2 is kept free so many times
its cycles before it must be over; and one takes so many times its cycles, since nodes wait for it.
At last none takes any: a value is absent at all nodes between two that use it."""
LEAST = 2048  # bytes of a value: smaller ones are not worth two copies
HOMES = "parameter", "buffer", "state"  # roles of what may lie in the HyperRAM between steps
ROUNDS = 2  # gaps may be chosen so often: others that are in their way are given up
RECORD = 20  # bytes of a copy in the program's table


def can_swap(schedule: Schedule) -> bool:
    """Is each node passed once in a step? Copies are in a fixed order."""
    return all(section.times == 1 for section in schedule.sections)


class NoRoom(Exception):
    """L2 is too small even so; `lack`: bytes that are missing; the message: why that is."""

    def __init__(self, lack: int, why: str = "") -> None:
        super().__init__(why)
        self.lack = lack

    def __reduce__(self) -> tuple[type["NoRoom"], tuple[int, str]]:
        return type(self), (self.lack, str(self))


@dataclass(frozen=True)
class SwapPlan:
    """Where values lie, and when they are copied.

    memory    in L2
    copies    in their order
    homes     where the host finds values in the HyperRAM between steps, by name
    cycles    of a step with these copies, about
    """

    memory: Memory
    copies: Sequence[Copy]
    homes: Mapping[str, int]
    cycles: int


@dataclass
class Swaps:
    """The choice of what is absent when.

    cycles      estimates for each node
    has_host    a host reads and writes what a step begins and ends with
    stops       nodes before which the next batch is written, see Schedule
    """

    graph: Graph
    nodes: Sequence[Node]
    cycles: Sequence[int]
    has_host: bool = True
    stops: Sequence[int] = ()
    early: float = field(init=False)
    taken: float = field(init=False)
    starts: list[int] = field(init=False)
    changed: dict[str, set[int]] = field(default_factory=dict)
    above: Mapping[str, Block] = field(default_factory=dict, init=False)

    def plan(
        self,
        static: Sequence[Block],
        temporary: Sequence[Block],
        start: int,
        room: int,
        ram: int,
        beyond: int = 0,
    ) -> SwapPlan:
        """Addresses in so many bytes of L2, of which the table of copies takes some.

        ram       bytes of the HyperRAM
        beyond    bytes of L2 after the others that no copy reaches: some of what stays lies there

        raises    NoRoom
        """
        error = NoRoom(0)
        self.starts = [0, *accumulate(self.cycles)]
        table = RECORD * 2 * len(self._gaps(static, temporary)) if beyond else 0
        self.above = filling(static, start + room, beyond - table)
        reached = [block for block in static if block.name not in self.above]
        self._check(reached, temporary, room)
        for self.early, self.taken in ATTEMPTS:
            try:
                return self._plan(reached, temporary, start, room, ram)
            except NoRoom as found:
                error = found
        raise error

    def _check(self, static: Sequence[Block], temporary: Sequence[Block], room: int) -> None:
        """raises    NoRoom if what a node needs at once takes more than so many bytes"""
        self.early, self.taken = ATTEMPTS[-1]
        timed = self._timed(self._gaps(static, temporary))
        live = self._live(_absent([*static, *temporary], timed))
        place = int(live.argmax())
        if (lack := int(live[place]) - room) > 0:
            where = "what is there between steps"
            if place < len(self.nodes):
                node = self.nodes[place]
                where = f"layer {node.layer}, {node.step} ({node.op})"
            raise NoRoom(
                lack,
                f"{where} takes {live[place]:,} bytes at once, there are "
                f"{max(room, 0):,} beside code and tables",
            )

    def _plan(
        self, static: Sequence[Block], temporary: Sequence[Block], start: int, room: int, ram: int
    ) -> SwapPlan:
        """One attempt."""
        gaps = self._gaps(static, temporary)
        chosen: list[Gap] = []
        stays = {block.name for block in static}
        lack = 0
        for _ in range(ROUNDS * len(gaps) + 1):
            timed = self._timed(chosen)
            left = room - (0 if self.above else RECORD * 2 * len(timed))
            blocks = _absent([*static, *temporary], timed)
            live = self._live(blocks)
            lack, nodes = int(live.max()) - left, [int(live.argmax())]
            if lack <= 0:
                still = [b for b in blocks if b.name in stays and not b.absent]
                memory = plan(still, [b for b in blocks if b.name not in stays or b.absent], start)
                lack = memory.peak - left
                if lack <= 0:
                    return self._copied(memory.with_more(self.above), timed, ram)
                highest = max(memory.blocks.values(), key=lambda block: block.end)
                below = [n for first, last in highest.times for n in range(first, last + 1)]
                nodes = sorted(below, key=lambda node: -live[node])
            more = self._more(timed, gaps, nodes, lack)
            if not more:
                break
            chosen = [*(t.gap for t in timed), more]
        raise NoRoom(lack, f"values that are there at once lie so that {lack:,} bytes are missing")

    def _live(self, blocks: Iterable[Block]) -> np.ndarray:
        """Bytes that are there at each node, and at the end."""
        changes = np.zeros(len(self.nodes) + 2, np.int64)
        for block in blocks:
            for first, last in block.times:
                changes[first] += block.size
                changes[last + 1] -= block.size
        return changes.cumsum()[:-1]

    def _gaps(self, static: Iterable[Block], temporary: Iterable[Block]) -> list[Gap]:
        """Of all values that are worth it."""
        used: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            outputs = {self.graph.root(name) for name in written(self.graph, node)}
            for root in outputs | {self.graph.root(name) for name in node.inputs.values()}:
                used.setdefault(root, []).append(number)
            for root in outputs:
                self.changed.setdefault(root, set()).add(number)
        end = len(self.nodes)
        found = []
        stays = {block.name for block in static}
        for block in (*static, *temporary):
            uses = used.get(block.name, [])
            if block.size < LEAST or block.name not in self.graph.values:
                continue
            role = self.graph.values[block.name].role
            if block.name in stays and self.has_host and role in HOMES and uses:
                found.append(Gap(block.name, block.size, uses[-1], uses[0], wraps=True))
            elif block.name in stays:
                uses = [-1, *uses, end]
            elif block.last == end and uses:
                uses = [*uses, end]
            if role == "input" and self.stops:  # it is there, and changes
                uses = sorted({*uses, *self.stops, *(stop - 1 for stop in self.stops)})
                self.changed.setdefault(block.name, set()).update(self.stops)
            found += [
                Gap(block.name, block.size, before, after)
                for before, after in pairwise(uses)
                if after - before > 1
            ]
        return found

    def _timed(self, chosen: Sequence[Gap]) -> list[Absence]:
        """When copies of these gaps take place; gaps that are too short for them are left out."""
        gates: dict[Gap, int] = {}
        due = self.starts[-1]
        for gap in sorted(chosen, key=lambda gap: -gap.after):
            due = min(due, self.starts[gap.after])
            due -= int(self.early * self.taken * copy_cycles(gap.size))
            least = 0 if gap.wraps else gap.before + 1
            gates[gap] = max(bisect_right(self.starts, due) - 1, least)
        known = {gap for gap in chosen if self._is_known(gap, chosen)}
        ends = {gap: gap.before + 1 for gap in known}
        free = 0
        order = [(gap.before + 1, 0, gap) for gap in chosen if gap not in known]
        order += [(gates[gap], 1, gap) for gap in chosen]
        for gate, is_back, gap in sorted(order, key=lambda o: (*o[:2], o[2].after, o[2].name)):
            free = max(free, self.starts[gate]) + int(self.taken * copy_cycles(gap.size))
            if not is_back:
                ends[gap] = bisect_left(self.starts, free)
        last = len(self.nodes)
        timed = list[Absence]()
        for gap in chosen:
            spans = [(ends[gap], gates[gap] - 1)]
            if gap.wraps:
                spans = [(0, gates[gap] - 1), (ends[gap], last)]
            absent = tuple(span for span in spans if span[0] <= span[1])
            timed.append(Absence(gap, gap not in known, absent))
        long = [t.gap for t in timed if t.spans]
        return timed if len(long) == len(timed) else self._timed(long)

    def _is_known(self, gap: Gap, chosen: Iterable[Gap]) -> bool:
        """Does the HyperRAM have the value since an earlier gap?"""
        ends = [g.after for g in chosen if g.name == gap.name and g.after <= gap.before]
        changed = self.changed.get(gap.name, ())
        return bool(ends) and not any(max(ends) <= node <= gap.before for node in changed)

    def _more(
        self, timed: Sequence[Absence], gaps: Sequence[Gap], nodes: Iterable[int], lack: int
    ) -> Gap | None:
        """One more gap, at the first of these nodes that has one: where most is there, or below
        what lies highest.

        lack    bytes that are missing
        """
        taken = dict.fromkeys(t.gap for t in timed)
        for node in nodes:
            there = [g for g in gaps if g not in taken and g.covers(node)]
            for gap in sorted(there, key=lambda gap: self._worth(gap, lack), reverse=True):
                if any(t.gap == gap and t.covers(node) for t in self._timed([*taken, gap])):
                    return gap
        return None

    def _worth(self, gap: Gap, over: int) -> tuple[float, int]:
        """Bytes that it saves for each that is copied, and then its cycles."""
        length = self.starts[gap.after] - self.starts[gap.before + 1]
        length += self.starts[-1] * gap.wraps
        return min(gap.size, over) / gap.size, length

    def _copied(self, memory: Memory, timed: Sequence[Absence], ram: int) -> SwapPlan:
        """The copies, and where they go in the HyperRAM.

        raises    NoRoom if so many bytes of the HyperRAM are too few
        """
        places: dict[str, int] = {}
        end = 0
        for t in timed:
            if t.gap.name not in places:
                places[t.gap.name] = end
                end += -(-t.gap.size // PAGE) * PAGE
        if end > ram:
            raise NoRoom(end - ram, f"values take {end:,} bytes there, it has {ram:,}")
        homes = {t.gap.name: places[t.gap.name] for t in timed if t.gap.wraps}
        copies, cycles = ordered(memory, timed, places, self.cycles)
        return SwapPlan(memory, copies, homes, cycles)


def _absent(blocks: Iterable[Block], timed: Iterable[Absence]) -> list[Block]:
    """The blocks, absent in these gaps."""
    gone: dict[str, list[tuple[int, int]]] = {}
    for t in timed:
        gone.setdefault(t.gap.name, []).extend(t.spans)
    return [replace(b, absent=tuple(sorted(gone.get(b.name, ())))) for b in blocks]

"""A check of a program's memory: its calls are gone through, and what every word holds is known.

Nothing of the plan is believed but the meaning: the nodes in the order in which they were written
down, before any pass, say which version of which value each of them reads. The calls, in the order
and with the addresses that the program has, must find exactly these words. So a value that lies
where another one still lives, an update that comes before the parameter's last reader, and a record
with a stale address are found, whatever they are due to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainlib.calls.call import Call, point_of
from trainlib.deploy.graph.registry import written
from trainlib.deploy.graph.values import Graph, Node
from trainlib.deploy.swap_order import Copy

DEAD = -1
UNIT = 2  # bytes: the least element


@dataclass(frozen=True)
class Emitted:
    """A call as the program has it.

    addresses     of operands, by the kernel's names
    workspaces    address and bytes of what the kernel writes besides
    """

    call: Call
    addresses: Mapping[str, int]
    workspaces: tuple[tuple[int, int], ...] = ()


Version = int | np.ndarray
"""Of all of a root, or of each of its units where nodes have written parts of it."""


class _Meaning:
    """Which version of a root each node reads and writes, in the order of the reference."""

    def __init__(self, graph: Graph, reference: Sequence[Node]) -> None:
        self.graph = graph
        self.versions: dict[str, Version] = {}
        self.read: dict[int, dict[str, Version]] = {}
        self.written: dict[int, dict[str, int]] = {}
        for node in reference:
            roots = [graph.root(name) for name in node.inputs.values()]
            self.read[id(node)] = {root: self.versions.get(root, 0) for root in roots}
            own: dict[str, int] = {}
            for name in written(graph, node):
                root = graph.root(name)
                if root not in own:
                    own[root] = int(np.max(self.versions.get(root, 0))) + 1
                self.versions[root] = self._changed(name, own[root])
            self.written[id(node)] = own

    def _changed(self, name: str, version: int) -> Version:
        """Of a root after a value in it has been written."""
        root, offset = self.graph.place(name)
        value, whole = self.graph.values[name], self.graph.values[root]
        if value.size == whole.size:
            return version
        units = np.array(np.broadcast_to(self.versions.get(root, 0), whole.size // UNIT))
        first = offset * value.item // UNIT
        units[first : first + value.size // UNIT] = version
        return units


class Replay:
    """Memory, by units: the number of a root's version, and the unit's place in it."""

    def __init__(self, graph: Graph, reference: Sequence[Node], start: int, end: int) -> None:
        """The graph as it was before anything was put in place of something else."""
        self.graph, self.meaning = graph, _Meaning(graph, reference)
        self.start = start
        self.units = np.full((end - start) // UNIT, DEAD, np.int64)
        self.numbers = {name: number for number, name in enumerate(graph.values)}
        self.faults: list[str] = []

    def place(self, name: str, address: int, version: int = 0) -> None:
        """Let a value be there before the first call."""
        value = self.graph.values[name]
        self._write(name, address, 0, value.size, version, f"{name} at first")

    def call(self, emitted: Emitted, node: Node) -> None:
        """Carry out a call: check what it reads, note what it writes."""
        family, point = point_of(emitted.call, None)
        read, written = self.meaning.read[id(node)], self.meaning.written[id(node)]
        where = f"{emitted.call.region}, {family.name}"
        tensors = {n: t for n, t in family.tensors(point).items() if t.role != "scratch"}
        for operand, tensor in tensors.items():
            if tensor.role in ("in", "inout"):
                name = emitted.call.operands[operand]
                root, offset = self.graph.place(name)
                wanted = self._tags(root, read[root], offset * tensor.item, tensor.size)
                found = self._at(emitted.addresses[operand], tensor.size)
                if found is None or not np.array_equal(found, wanted):
                    self.faults.append(self._fault(where, operand, name, found, wanted))
        for address, size in emitted.workspaces:
            self._put(address, np.full(size // UNIT, DEAD), f"{where}: workspace")
        for operand, tensor in tensors.items():
            if tensor.role in ("out", "inout"):
                root, offset = self.graph.place(emitted.call.operands[operand])
                address = emitted.addresses[operand]
                how = root, address, offset * tensor.item, tensor.size, written[root]
                self._write(*how, f"{where}: {operand}")

    def check(self, name: str, address: int, why: str) -> None:
        """Must a value be there now, in its last version?"""
        root, offset = self.graph.place(name)
        value = self.graph.values[name]
        version = self.meaning.versions.get(root, 0)
        wanted = self._tags(root, version, offset * value.item, value.size)
        found = self._at(address, value.size)
        if found is None or not np.array_equal(found, wanted):
            self.faults.append(self._fault(why, "result", name, found, wanted))

    def tags(self, root: str, version: Version) -> np.ndarray:
        """Of all of a root."""
        return self._tags(root, version, 0, self.graph.values[root].size)

    def _tags(self, root: str, version: Version, offset: int, size: int) -> np.ndarray:
        """Of so many bytes of a version of a root."""
        first, count = offset // UNIT, size // UNIT
        if not isinstance(version, int):
            version = version[first : first + count]
        return (self.numbers[root] << 40) + (version << 32) + np.arange(first, first + count)

    def _write(
        self, root: str, address: int, offset: int, size: int, version: int, where: str
    ) -> None:
        self._put(address, self._tags(root, version, offset, size), where)

    def _put(self, address: int, tags: np.ndarray, where: str) -> None:
        index = (address - self.start) // UNIT
        if not 0 <= index <= index + tags.size <= self.units.size:
            self.faults.append(f"{where}: writes {address:#010x}, outside of the values' memory")
            return
        self.units[index : index + tags.size] = tags

    def _at(self, address: int, size: int) -> np.ndarray | None:
        index, count = (address - self.start) // UNIT, size // UNIT
        inside = 0 <= index <= index + count <= self.units.size
        return self.units[index : index + count] if inside else None

    def _fault(
        self, where: str, operand: str, name: str, found: np.ndarray | None, wanted: np.ndarray
    ) -> str:
        if found is None:
            return f"{where}: {operand} is read outside of the values' memory"
        at = int(np.flatnonzero(found != wanted)[0])
        return (
            f"{where}: {operand} must be {self._said(int(wanted[at]))}, and finds "
            f"{self._said(int(found[at]))}"
        )

    def _said(self, tag: int) -> str:
        if tag == DEAD:
            return "nothing that is still there"
        names = list(self.graph.values)
        value = self.graph.values[names[tag >> 40]]
        element = (tag & 0xFFFFFFFF) * UNIT // value.item
        return f"element {element} of {value.name}, version {tag >> 32 & 0xFF}"


@dataclass
class _Begun:
    """A copy that has begun.

    before    what lay in its place in L2 then, by units
    own       those of them that no later copy fills
    """

    copy: Copy
    before: np.ndarray
    own: np.ndarray

    def leave(self, later: Copy) -> None:
        """Leave to a later copy what it fills."""
        first, last = (
            (address - self.copy.l2) // UNIT for address in (later.l2, later.l2 + later.size)
        )
        self.own[max(first, 0) : max(last, 0)] = False


class Moves:
    """Copies between L2 and the HyperRAM, which take place at any time from gate to need."""

    def __init__(self, replay: Replay, copies: Sequence[Copy]) -> None:
        self.replay = replay
        self.begun: list[_Begun] = []
        self.left = list(copies)
        end = max((copy.ram + copy.size for copy in copies), default=0)
        self.ram = np.full(end // UNIT, DEAD, np.int64)

    def place(self, name: str, address: int) -> None:
        """Let a value be in the HyperRAM before the first call."""
        value = self.replay.graph.values[name]
        self._units(address, value.size)[:] = self.replay.tags(name, 0)

    def check(self, name: str, address: int) -> None:
        """Must a value be in the HyperRAM now, in its last version?"""
        size = self.replay.graph.values[name].size
        wanted = self.replay.tags(name, self.replay.meaning.versions.get(name, 0))
        if not np.array_equal(self._units(address, size), wanted):
            self.replay.faults.append(f"{name}: its last version is not in the HyperRAM at the end")

    def _units(self, address: int, size: int) -> np.ndarray:
        return self.ram[address // UNIT : (address + size) // UNIT]

    def before(self, node: int) -> None:
        """Let those begin that may, and those end that must: in their order."""
        while self.left and self.left[0].gate <= node:
            self._end(node)
            self._begin(self.left.pop(0))
        self._end(node)

    def _begin(self, copy: Copy) -> None:
        """Begin one. Where it fills the place of one before it, that one is over by then."""
        place = self._place(copy)
        if copy.to_l2:
            for other in self.begun:
                other.leave(copy)
            place[:] = DEAD
        self.begun.append(_Begun(copy, place.copy(), np.full(len(place), True)))

    def _end(self, node: int) -> None:
        """End those begun up to the last that must be over."""
        while any(begun.copy.need <= node for begun in self.begun):
            begun = self.begun.pop(0)
            copy, before, own = begun.copy, begun.before, begun.own
            place, units = self._place(copy), self._units(copy.ram, copy.size)
            if not np.array_equal(place[own], before[own]):
                how = "to L2" if copy.to_l2 else "to the HyperRAM"
                text = f"copy of {copy.name} {how}: its place is written to from node {copy.gate}"
                self.replay.faults.append(f"{text} to {node}")
            if copy.to_l2:
                place[own] = units[own]
            else:
                units[:], place[own] = before, DEAD

    def _place(self, copy: Copy) -> np.ndarray:
        first = (copy.l2 - self.replay.start) // UNIT
        return self.replay.units[first : first + copy.size // UNIT]


def replayed(
    graph: Graph,
    reference: Sequence[Node],
    nodes: Sequence[Node],
    calls: Sequence[Emitted],
    addresses: Mapping[str, int],
    kept: Sequence[str],
    extent: tuple[int, int],
    copies: Sequence[Copy] = (),
    homes: Mapping[str, int] | None = None,
) -> list[str]:
    """What is wrong with a program's memory, one sentence each; [] if nothing is.

    graph        as it was before passes put values in place of others
    reference    its nodes, in the order that says what is meant
    nodes        those of the program, in its order
    calls        of kernels, one for each of them
    addresses    of what stays, and of what is kept
    extent       first and last address of the values' memory
    copies       between L2 and the HyperRAM, in their order
    homes        addresses in the HyperRAM of what lies there between steps
    """
    replay = Replay(graph, reference, *extent)
    moves = Moves(replay, copies)
    stays = [value.name for value in graph.values.values() if value.role != "temporary"]
    stays = [name for name in stays if graph.values[name].base is None and name in addresses]
    at_home = [name for name in stays if name in (homes or {})]
    stays = [name for name in stays if name not in at_home]
    for name in stays:
        replay.place(name, addresses[name])
    for name in at_home:
        moves.place(name, (homes or {})[name])
    for number, (emitted, node) in enumerate(zip(calls, nodes, strict=True)):
        moves.before(number)
        replay.call(emitted, node)
    moves.before(len(nodes))
    for name in stays:
        replay.check(name, addresses[name], "after the step")
    for name in at_home:
        moves.check(name, (homes or {})[name])
    for name in kept:
        replay.check(name, addresses[name], "after the step")
    return replay.faults

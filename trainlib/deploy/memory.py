"""Where everything lies in L2: lifetimes of values, and addresses that overlap in no moment.

Values of an alias class share their root's place. What stays (parameters, buffers, states, inputs,
constants) lies first. Temporary values, and what kernels need while they run, are placed the
largest first, each at the lowest address that is free during its lifetime.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

from soc.host.notebook import frame, html_table
from trainlib.deploy.graph.registry import written
from trainlib.deploy.graph.values import Graph, Node

ALIGNED = 64  # bytes: a value begins where a bank of L1 and a line of L2 do


@dataclass(frozen=True)
class Block:
    """Memory for a root, or a kernel's workspace.

    first, last    nodes by number: it holds something from the first one to the last one
    address        in L2
    absent         first and last nodes between them at which it lies elsewhere, in their order
    """

    name: str
    size: int
    first: int
    last: int
    address: int = 0
    absent: tuple[tuple[int, int], ...] = ()

    @property
    def end(self) -> int:
        """The address after it."""
        return self.address + self.size

    def meets(self, other: "Block") -> bool:
        """Are both there at the same time?"""
        if self.first > other.last or other.first > self.last:
            return False
        if not self.absent and not other.absent:
            return True
        return any(a <= d and c <= b for a, b in self.times for c, d in other.times)

    @cached_property
    def times(self) -> list[tuple[int, int]]:
        """First and last nodes at which it is there."""
        if not self.absent:
            return [(self.first, self.last)]
        bounds = [self.first, *(b for a, z in self.absent for b in (a - 1, z + 1)), self.last]
        pairs = zip(bounds[::2], bounds[1::2], strict=True)
        return [(first, last) for first, last in pairs if first <= last]


@dataclass(frozen=True, repr=False)
class Memory:
    """The plan.

    blocks      by name
    start, end  addresses of all of them together
    static      bytes of what stays
    live        bytes that are there at the same time at most: no plan is below
    code        bytes of the program's instructions, tables: of what kernels read beside it
    """

    blocks: Mapping[str, Block]
    start: int
    end: int
    static: int
    live: int
    code: int = 0
    tables: int = 0

    def with_more(self, blocks: Mapping[str, Block]) -> "Memory":
        """With blocks that stay, after all others."""
        size = sum(_aligned(block.size) for block in blocks.values())
        end = max((_aligned(block.end) for block in blocks.values()), default=self.end)
        how = {"end": end, "static": self.static + size, "live": self.live + size}
        return replace(self, blocks={**self.blocks, **blocks}, **how)

    @property
    def peak(self) -> int:
        """Bytes of all values."""
        return self.end - self.start

    def __repr__(self) -> str:
        return (
            f"<Memory {self.peak:,} bytes at {self.start:#010x}, {self.static:,} of them stay; "
            f"code {self.code:,}, tables {self.tables:,}>"
        )

    def _repr_html_(self) -> str:
        rows = [row | {"address": f"{row['address']:#010x}"} for row in self.rows()]
        return html_table(repr(self)[1:-1], rows)

    def rows(self) -> list[dict[str, Any]]:
        """Every block by address, a dictionary each; first and last are nodes by number."""
        return [
            {"name": b.name, "address": b.address, "size": b.size, "first": b.first, "last": b.last}
            for b in sorted(self.blocks.values(), key=lambda b: (b.address, b.first))
        ]

    def to_frame(self) -> Any:
        """The rows as a pandas.DataFrame. Raises ImportError without pandas."""
        return frame(self.rows())


def lifetimes(
    graph: Graph, nodes: Sequence[Node], kept: Collection[str], workspaces: Mapping[int, Mapping]
) -> tuple[list[Block], list[Block]]:
    """What stays, and what is temporary.

    kept          temporary values that are read after the last node
    workspaces    bytes by name, of nodes by number
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in (*written(graph, node), *node.inputs.values()):
            root = graph.root(name)
            first.setdefault(root, number)
            last[root] = number
    end = len(nodes)
    last |= {graph.root(name): end for name in kept}
    static, temporary = [], []
    for value in graph.values.values():
        if value.base is not None:
            continue
        if value.role != "temporary":
            static.append(Block(value.name, value.size, 0, end))
        elif value.name in first:
            times = first[value.name], last[value.name]
            temporary.append(Block(value.name, value.size, *times))
    for number, buffers in workspaces.items():
        temporary += [Block(name, size, number, number) for name, size in buffers.items()]
    return static, temporary


def plan(static: Iterable[Block], temporary: Iterable[Block], start: int) -> Memory:
    """Addresses from `start` on."""
    blocks: dict[str, Block] = {}
    address = start
    for block in static:
        blocks[block.name] = _at(block, address)
        address = _aligned(blocks[block.name].end)
    base = end = address
    moving = list(temporary)
    placed: list[Block] = []
    for block in sorted(moving, key=lambda b: (-b.size, b.first, b.name)):
        found = _at(block, _lowest(block, placed, base))
        placed.append(found)
        blocks[block.name] = found
        end = max(end, _aligned(found.end))
    return Memory(blocks, start, end, base - start, _live(moving) + base - start)


def filling(blocks: Iterable[Block], start: int, room: int) -> dict[str, Block]:
    """Some of these blocks, by name, with addresses in so many bytes: the largest that fit."""
    found: dict[str, Block] = {}
    address, end = _aligned(start), start + room
    for block in sorted(blocks, key=lambda b: (-b.size, b.name)):
        if address + _aligned(block.size) <= end:
            found[block.name] = _at(block, address)
            address += _aligned(block.size)
    return found


def _lowest(block: Block, placed: Iterable[Block], base: int) -> int:
    """The lowest address at which a block fits between those that are there with it."""
    address = base
    for other in sorted((o for o in placed if o.meets(block)), key=lambda o: o.address):
        if address + block.size <= other.address:
            break
        address = max(address, _aligned(other.end))
    return address


def _live(blocks: Sequence[Block]) -> int:
    """The most bytes that are there at the same time."""
    live: Counter[int] = Counter()
    for block in blocks:
        for first, last in block.times:
            live[first] += _aligned(block.size)
            live[last + 1] -= _aligned(block.size)
    return max(accumulate(live[time] for time in sorted(live)), default=0)


def _at(block: Block, address: int) -> Block:
    return replace(block, address=address)


def _aligned(address: int) -> int:
    return -(-address // ALIGNED) * ALIGNED

"""The schedule of a core that works by itself: when it computes which of its items, and copies.

A core computes its items round by round and, between two rounds, makes a stop: it waits for its own
copies, starts the next one and goes on. What happens at which stop is data, the same for all cores
but for where their items lie.

    item 0      in parts: while one is computed, what the next ones need is copied, at last the
                next item
    last item   in parts: the output that is left, then its own, part by part

and of those between, where L1 has room for four

    odd items   while they are computed, the next two items' input is copied
    even items  the last two items' output

or else of each: in its first part the next item's input is copied, in its second one the last
item's output.

A stop starts one copy alone: a port of the DMA takes its next command only when the last one has
begun, which is when those of all other cores before it are done.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from firmware.builder import Kernel
from firmware.drivers import LONGEST
from firmware.runtime import Team
from trainlib.primitive.per_core import Alone
from trainlib.primitive.tensor import BANKS, WORD, Tensors
from trainlib.primitive.tile_spec import Sizes, Tiling
from trainlib.tiling.tile_size import MOST_ISSUERS

RINGS = 4, 2  # items of a streamed tensor that a core has in L1: what is tried
SKEW = 2  # words, modulo the banks, from where a core's items begin to where those of the next do
FRONT, BACK = (3, 7, 5), (6, 3)  # rounds of parts of the first block and of the last, of WHOLE
WHOLE = 25
LEAST = 12  # lines of a block that is cut into parts
STOP = 48  # bytes of a stop in the table, at most about
ALIGN = 16  # bytes, what buffers begin at
BEAT, AROUND = 8, 8  # bytes that the DMA moves in a cycle, cycles that a copy takes besides


@dataclass(frozen=True)
class Copied:
    """A copy: bytes of a tensor, from a byte of one of the core's items on."""

    name: str
    item: int
    first: int
    size: int


@dataclass(frozen=True)
class BlockRounds:
    """Rounds of a block of an item.

    begins, ends    are they the block's first, its last?
    """

    block: int
    rounds: int
    begins: bool = True
    ends: bool = True


@dataclass(frozen=True)
class Stop:
    """A copy is started, then a part of an item is computed.

    copied    None: nothing
    """

    copied: Copied | None
    item: int
    part: BlockRounds


@dataclass(frozen=True)
class Share:
    """The work of a core; that of any other differs by where its items lie.

    ring    items of a streamed tensor that it has in L1
    """

    alone: Alone
    tensors: Tensors
    cores: int
    ring: int

    @property
    def exists(self) -> bool:
        """Are cores' items equal in number, several, and computed for longer than copied?"""
        a, streamed = self.alone, (self.alone.source, self.alone.result)
        if a.items % self.cores or self.items < 2 or not self.others or a.cuts and a.cuts.back:
            return False
        if a.begun + a.rounds * a.lines < LEAST or a.rounds < len(FRONT) + 1:
            return False
        if self.cores > MOST_ISSUERS or self.ring > min(RINGS) and len(a.blocks) > 1:
            return False
        copying = max(self.size(name) for name in streamed) / BEAT + AROUND
        if self.cores * copying > len(a.blocks) * a.rounds * a.cycles:
            return False
        copies = [*self.opening, *(s.copied for s in self.stops if s.copied), self.ending]
        return all(0 < copied.size <= LONGEST for copied in copies)

    @property
    def items(self) -> int:
        """Items of a core."""
        return self.alone.items // self.cores

    def size(self, name: str) -> int:
        """Bytes of an item."""
        return self.tensors[name].size // self.alone.items

    def _held(self, name: str) -> int:
        """Bytes of all items of a tensor that a core has in L1."""
        return -(-self.slots(name) * self.size(name) // WORD) * WORD

    def slots(self, name: str) -> int:
        """Items that a core has in L1."""
        is_streamed = name in (self.alone.source, self.alone.result)
        return min(self.ring, self.items) if is_streamed else self.items

    @property
    def block(self) -> int:
        """Bytes in L1 from what a core has to what the next one has."""
        size = sum(self._held(name) for name in self.tensors)
        return size + (SKEW * WORD - size) % (BANKS * WORD)

    @property
    def size_in_l1(self) -> int:
        """Bytes of L1 that all shares take, and the table."""
        return self.cores * self.block + STOP * (len(self.stops) + 2)

    def place(self, name: str, item: int) -> int:
        """Where in that an item is."""
        names = list(self.tensors)
        before = names[: names.index(name)]
        start = sum(self._held(other) for other in before)
        return start + item % self.slots(name) * self.size(name)

    @property
    def others(self) -> list[str]:
        """Tensors that are not streamed, the largest first."""
        streamed = self.alone.source, self.alone.result
        return sorted((n for n in self.tensors if n not in streamed), key=self.size, reverse=True)

    @property
    def opening(self) -> list[Copied]:
        """What is copied before the first round: of the largest of what is whole one item."""
        counts = [1, *(self.items for _ in self.others[1:])]
        whole = zip(self.others, counts, strict=True)
        first = Copied(self.alone.source, 0, 0, self.alone.read(self._front[0]))
        return [*(Copied(name, 0, 0, count * self.size(name)) for name, count in whole), first]

    @property
    def stops(self) -> list[Stop]:
        """All of them."""
        found = []
        for item in range(self.items):
            parts, copies = list(self._parts(item)), self._copies(item)
            copies += [None] * (len(parts) - len(copies))
            if item == self.items - 1:
                copies[1 - len(self._back) :] = self._written
            found += [Stop(copied, item, part) for copied, part in zip(copies, parts, strict=True)]
        return found

    @property
    def ending(self) -> Copied:
        """What is copied after the last round."""
        a, done = self.alone, sum(self._back[:-1])
        first = a.written(done)
        return Copied(a.result, self.items - 1, first, self.size(a.result) - first)

    @property
    def _front(self) -> list[int]:
        """Rounds of the parts of the first block."""
        cuts = [max(1, round(part * self.alone.rounds / WHOLE)) for part in FRONT]
        return [*cuts, self.alone.rounds - sum(cuts)]

    @property
    def _back(self) -> list[int]:
        """Rounds of the parts of the last one."""
        cuts = [max(1, round(part * self.alone.rounds / WHOLE)) for part in BACK]
        return [self.alone.rounds - sum(cuts), *cuts]

    def _parts(self, item: int) -> Iterator[BlockRounds]:
        """The parts of an item, block by block."""
        rounds, last = self.alone.rounds, len(self.alone.blocks) - 1
        for block in range(last + 1):
            cuts = [rounds]
            if item == block == 0:
                cuts = self._front
            elif item == self.items - 1 and block == last:
                cuts = self._back
            elif last == 0 and self.ring == min(RINGS):
                cuts = [rounds // 2, rounds - rounds // 2]
            for at, count in enumerate(cuts):
                yield BlockRounds(block, count, at == 0, at == len(cuts) - 1)

    def _copies(self, item: int) -> list[Copied | None]:
        """What is copied in the first parts of an item; the last one has `_written` at its end."""
        a, last = self.alone, self.items - 1
        has_pairs = self.ring > min(RINGS)
        if item == 0:
            return self._first_copies()
        if item == last:
            left = 2 - last % 2 if has_pairs else 1
            return [Copied(a.result, last - left, 0, left * self.size(a.result))]
        if not has_pairs:
            following = Copied(a.source, item + 1, 0, self.size(a.source))
            return [following, Copied(a.result, item - 1, 0, self.size(a.result))]
        if item % 2:
            count = min(2, last - item)
            return [Copied(a.source, item + 1, 0, count * self.size(a.source))]
        return [Copied(a.result, item - 2, 0, 2 * self.size(a.result))]

    def _first_copies(self) -> list[Copied | None]:
        source, largest = self.alone.source, self.others[0]
        reads = [self.alone.read(rounds) for rounds in accumulate(self._front)]
        return [
            Copied(source, 0, reads[0], reads[1] - reads[0]),
            Copied(source, 0, reads[1], self.size(source) - reads[1]),
            Copied(largest, 1, 0, (self.items - 1) * self.size(largest)),
            Copied(source, 1, 0, self.size(source)),
        ]

    @property
    def _written(self) -> list[Copied | None]:
        """What the parts of the last block but its last one write."""
        a = self.alone
        ends = [0, *(a.written(done) for done in accumulate(self._back[:-1]))]
        return [
            Copied(a.result, self.items - 1, first, end - first) for first, end in pairwise(ends)
        ]


def share_of(
    k: Kernel, team: Team, tiling: Tiling, tensors: Tensors, tile: Sizes, buffers: int
) -> Share | None:
    """What each core does by itself; None: nothing, or sizes of tiles are given, or one buffer."""
    if tile or buffers == 1 or k.isa.loop_end != "last":
        return None  # CV32E40P enters loops at their start only
    alone = tiling.alone()
    if alone is None or alone.summed:
        return None
    room = k.l1.left - 2 * (k.l1.guard + ALIGN)
    for ring in RINGS:
        share = Share(alone, tensors, team.cores, ring)
        if share.exists and share.size_in_l1 <= room:
            return share
    return None

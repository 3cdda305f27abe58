"""The plan of a tiled program: sizes of tiles, steps, buffers, and the form of the table."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm, prod
from typing import Any

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.primitive.slices import TileShape
from trainlib.primitive.tensor import WORD, Tensors
from trainlib.primitive.tile_spec import Sizes, Tiling
from trainlib.tiling.records import SHORTEST
from trainlib.tiling.schedule import Step, Transfer, schedule
from trainlib.tiling.tile_size import (
    MOST_ISSUERS,
    RING,
    SMALLEST_ENTRY,
    Choice,
    TableRoom,
    TablesTooLong,
)

FUNCTION, NEXT, ADDRESSES = (WORD * word for word in range(3))  # of an entry
MOST_OPENING = 4  # copies of the first step that code starts instead of the table
WHOLE = 1024  # bytes of a table that is in L1 from the start on, where copying takes longest
LONG = 1024  # bytes of a copy that a core should start nothing after
HIDDEN = 3.2  # bytes that the DMA moves in short bursts in half a cycle
MOST_TRIES = 16  # tables that turn out not to fit


@dataclass(frozen=True)
class Plan:
    """The steps of a tiled computation, and its buffers.

    slots    buffers of each tensor
    sizes    bytes of each of them
    is_copying   does copying take longer than computing?
    is_new       is its code in no cache, and do cores fetch it ahead?
    """

    tiling: Tiling
    steps: list[Step]
    slots: dict[str, int]
    sizes: dict[str, int]
    scratch: dict[str, int]
    cores: int
    is_copying: bool
    is_new: bool = False

    @classmethod
    def of(
        cls,
        k: Kernel,
        team: Team,
        tiling: Tiling,
        tensors: Tensors,
        tile: Sizes,
        buffers: int,
        kept: int = 0,
        price: float = 0,
        is_new: bool = False,
    ) -> "Plan":
        """Choose sizes of tiles until the table fits L2, and the entries in use fit L1 too.

        kept      bytes of L2 that are for others, if possible
        price     cycles that a byte of the table is worth

        raises    KernelError for sizes that do not exist, or do not fit
        """
        for left in dict.fromkeys((max(k.l2.left - kept, 0), k.l2.left)):
            choice = Choice(k.name, tiling, tensors, buffers, k.l1, 0, TableRoom(left, price=price))
            plan = cls._chosen(k, choice, tile, team.cores, is_new)
            if plan.table_size <= left:
                return plan
        raise KernelError(_too_long(k, plan))

    @classmethod
    def _chosen(cls, k: Kernel, choice: Choice, tile: Sizes, cores: int, is_new: bool) -> "Plan":
        """The best plan with a table that fits; the one with the smallest if none does."""
        smallest: Plan | None = None
        while True:
            try:
                sizes = choice.sizes(tile)
            except TablesTooLong:
                assert smallest is not None
                return smallest
            _check_count(k, choice.tiling, sizes)
            plan = cls._with(choice, sizes, cores, is_new)
            if plan.table_size > choice.table.bytes:
                if smallest is None or plan.table_size < smallest.table_size:
                    smallest = plan
                choice = replace(choice.known(sizes, plan.table_size), reserved=0)
                if len(choice.table.too_long) == MOST_TRIES:
                    return smallest
            elif plan.ring * plan.entry_size > choice.reserved:
                choice = replace(choice, reserved=plan.ring * plan.entry_size)
            else:
                return plan if choice.table.price else plan._in_short_bursts(choice, sizes)

    @classmethod
    def _with(cls, choice: Choice, sizes: Sizes, cores: int, is_new: bool) -> "Plan":
        """The plan with tiles of these sizes."""
        tiling, tensors = choice.tiling, choice.tensors
        slots = choice.slots(sizes)
        tiles = list(tiling.tiles(sizes, tensors, cores))
        steps = schedule(tiles, tensors, slots, choice.ahead(sizes))
        parts, scratch = _bytes(tiling, tiles)
        is_copying = choice.is_copying(sizes)
        return cls(tiling, steps, slots, parts, scratch, cores, is_copying, is_new)

    def _in_short_bursts(self, choice: Choice, sizes: Sizes) -> "Plan":
        """The same with copies in short bursts, where computing takes twice as long as these; as it
        is if there is no room for their commands.

        NOTE: a line of code that a core needs meanwhile waits for up to eight bursts.
        """
        grid = choice.grid(sizes)
        rate = grid.work.item() / prod(dim.size for dim in self.tiling.dims)

        def hidden(step: Step) -> bool:
            sizes = dict(step.shape.sizes) if step.shape else {"": 0}
            if self.tiling.told in sizes and step.each:
                sizes[self.tiling.told] = abs(step.each)
            return step.bytes < HIDDEN * rate * prod(sizes.values())

        steps = [step.in_short_bursts if hidden(step) else step for step in self.steps]
        plan = self if self.is_ahead else replace(self, steps=steps)
        has_room = grid.bytes.item() + plan.ring * plan.entry_size <= choice.free
        return plan if has_room and plan.table_size <= choice.table.bytes else self

    @property
    def is_ahead(self) -> bool:
        """Do copies of a step start before those of the last one are waited for?"""
        return self.is_copying or self.tiling.streams

    @property
    def has_code(self) -> bool:
        """Do entries have a word for the end of their function's code? See tile_loop."""
        return self.is_new and not self.is_ahead and len(self.shapes) > 1

    @property
    def entries(self) -> int:
        """Entries of the table: one for each step that has one, and where no copies of the last
        step may be left to wait for, the last.
        """
        return len(self.walked) + (not self.is_ahead)

    @property
    def table_size(self) -> int:
        """Bytes of the table."""
        return sum(self.lengths)

    @property
    def is_whole(self) -> bool:
        """Is all of the table in L1 from the start on?"""
        return self.tiling.streams and self.table_size <= WHOLE

    @property
    def ring(self) -> int:
        """Entries in L1."""
        return self.entries if self.is_whole else RING

    @cached_property
    def shapes(self) -> list[TileShape]:
        """All distinct shapes of tiles, in the order of their first use."""
        return list(dict.fromkeys(step.shape for step in self.steps if step.shape is not None))

    @property
    def tile(self) -> tuple[tuple[str, int], ...]:
        """Sizes of whole tiles, of which there may be none first: see Tiling.rest_first."""
        names = (name for name, _ in self.shapes[0].sizes)
        sizes = zip(*(dict(shape.sizes).values() for shape in self.shapes), strict=True)
        return tuple(zip(names, map(max, sizes), strict=True))

    @cached_property
    def opening(self) -> list[Transfer]:
        """What is copied before the first entry is there: all of the first step, or nothing."""
        first = self.steps[0]
        is_short = first.shape is None and len(first.transfers) <= MOST_OPENING
        return first.transfers if is_short else []

    @cached_property
    def walked(self) -> list[Step]:
        """Steps that have an entry."""
        return self.steps[1:] if self.opening else self.steps

    @cached_property
    def moving(self) -> list[str]:
        """Tensors that have more than one buffer."""
        return [name for name, slots in self.slots.items() if slots > 1]

    @cached_property
    def issuers(self) -> int:
        """Cores that start copies; not all, unless there is but one. No more than let the one that
        has most have as few, but one for each that is long: what follows it on a core waits.
        """
        most = min(max(self.cores - 1, 1), self.most_commands, MOST_ISSUERS)
        fewest = -(-self.most_commands // -(-self.most_commands // most))
        long = max(sum(t.copy.size >= LONG for t in step.transfers) for step in self.walked)
        return max(fewest, min(most, long))

    @property
    def waiter(self) -> int:
        """The core that waits for all copies."""
        return max(self.cores - 1 - self.issuers, 0)

    @cached_property
    def most_commands(self) -> int:
        """Commands in a step: its transfers, and an entry, unless cores fetch that."""
        return max(len(step.transfers) for step in self.walked) + (not self.tiling.streams)

    @cached_property
    def grows(self) -> bool:
        """Does code take from an entry how much each core computes of a tile?"""
        return any(step.each is not None for step in self.steps)

    @property
    def each(self) -> int:
        """Where in an entry that is, if anywhere."""
        return ADDRESSES + WORD * len(self.moving)

    @property
    def code(self) -> int:
        """Where in an entry the end of its function's code is if that is new, else 0."""
        return self.each + WORD * self.grows

    @property
    def nothing(self) -> int:
        """Where in an entry a zero is: the number of words of cores that start no copies."""
        return self.code + WORD * self.has_code

    @property
    def counts(self) -> int:
        """Where in an entry the numbers of words of blocks begin."""
        return self.nothing + WORD

    @property
    def first_block(self) -> int:
        """Bytes in an entry before the blocks of commands."""
        return self.counts + WORD * self.issuers

    @cached_property
    def entry_size(self) -> int:
        """Bytes from an entry to the next in L1: those of the longest, where cores fetch entries
        themselves as much for each.
        """
        share = lcm(16, WORD * self.cores if self.tiling.streams else 1)
        longest = max(self._length(step, has_next=True) for step in self.walked)
        return -(-longest // share) * share

    @cached_property
    def lengths(self) -> list[int]:
        """Bytes from each entry to the next in L2: its own, but of the first, which one command
        copies with the second, and where cores fetch entries.
        """
        if self.tiling.streams:
            return [self.entry_size] * self.entries
        lengths = [
            self._length(step, has_next=number + 2 < self.entries)
            for number, step in enumerate(self.walked)
        ]
        finish = [self.first_block] * (self.entries - len(self.walked))
        return [self.entry_size, *lengths[1:], *finish]

    def _length(self, step: Step, *, has_next: bool) -> int:
        """Bytes of a step's entry; has_next: with the command that fetches the next but one."""
        fetched = SHORTEST if has_next and not self.tiling.streams else 0
        return self.first_block + WORD * (fetched + sum(t.copy.length for t in step.transfers))


def _check_count(k: Kernel, tiling: Tiling, sizes: Sizes) -> None:
    """Raise KernelError if there are more tiles than entries fit L2, before any is worked out."""
    tiles = prod(-(-dim.size // sizes[dim.name]) for dim in tiling.dims)
    if tiles * SMALLEST_ENTRY > k.l2.left:
        raise KernelError(
            f"{k.name}: {tiles} tiles need {tiles * SMALLEST_ENTRY} bytes of L2 for their schedule "
            f"at least, {k.l2.left} are left; make them larger"
        )


def _too_long(k: Kernel, plan: Plan) -> str:
    """What to say of a table that does not fit where there is no smaller one."""
    tile = ", ".join(f"{name} = {size}" for name, size in plan.tile)
    return (
        f"{k.name}: tiles of {tile} need {plan.table_size} bytes of L2 for their schedule, "
        f"{k.l2.left} are left; larger ones need fewer, if L1 has room for them"
    )


def _bytes(tiling: Tiling, tiles: list[Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes that the largest part of each tensor takes, and the largest scratch buffers."""
    sizes: dict[str, int] = {}
    scratch: dict[str, int] = {}
    for shape in dict.fromkeys(tile.shape for tile in tiles):
        for name, part in shape.parts:
            sizes[name] = max(sizes.get(name, 0), part.size)
        for name, size in (tiling.scratch(shape) if tiling.scratch else {}).items():
            scratch[name] = max(scratch.get(name, 0), size)
    return sizes, scratch

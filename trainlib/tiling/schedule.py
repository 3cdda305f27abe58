"""When a tile is computed, and when its parts come and go: a schedule of steps, as plain data.

In a step the cores compute what earlier steps have copied, while its own copies start; they end by
the computation of the next. So a part comes in a step before that of the first tile that needs it,
and an output goes in the step after that of the last tile that adds to it. How far the DMA is
ahead follows from the number of buffers alone: with one, a step copies and the next computes; with
two, both happen at once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from trainlib.primitive.slices import Box, TileShape
from trainlib.primitive.tensor import Role, Tensor, Tensors
from trainlib.primitive.tile_spec import Tile
from trainlib.tiling.dma_commands import Copy, copies

LEFT = {"in": 1, "out": 2, "inout": 3}
"""Steps from the last use of a buffer to the next write to it.

in       the DMA writes it: starts in the next step
out      the cores write it: when the copy that started in the step after has ended
inout    the DMA writes it: starts in the step after the one in which that copy has ended
"""

MOST_SHORT = 4  # copies of a step in short bursts: commands with lines that the DMA holds
LEAST_SHORT = 1024  # bytes of one


@dataclass(frozen=True)
class Transfer:
    """A copy of a part of tensor `name`, from or to its buffer number `slot`."""

    name: str
    slot: int
    to_l1: bool
    copy: Copy


@dataclass
class Step:
    """A step: computing and copies that happen at the same time.

    shape        of the tile that is computed, None: none
    each         how much of it each core computes, see Tile
    slots        the buffer that it has of each tensor
    transfers    what the DMA copies
    """

    shape: TileShape | None = None
    each: int | None = None
    slots: dict[str, int] = field(default_factory=dict)
    transfers: list[Transfer] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Bytes that it copies."""
        return sum(transfer.copy.size for transfer in self.transfers)

    @property
    def in_short_bursts(self) -> "Step":
        """The same, with copies to L1 in short bursts, unless there are many."""
        to_l1 = [transfer for transfer in self.transfers if transfer.to_l1]
        if len(to_l1) > MOST_SHORT:
            return self
        transfers = [
            replace(transfer, copy=transfer.copy.in_short_bursts)
            if transfer in to_l1 and transfer.copy.size >= LEAST_SHORT
            else transfer
            for transfer in self.transfers
        ]
        return replace(self, transfers=transfers)


@dataclass
class Stay:
    """A box in L1, from the first to the last of the tiles that need it.

    slot      the buffer that it is in
    before    what that had before, if anything
    """

    box: Box
    slot: int
    before: "Stay | None"
    tiles: list[int]

    @property
    def first(self) -> int:
        return self.tiles[0]

    @property
    def last(self) -> int:
        return self.tiles[-1]


def stays(tiles: Sequence[Tile], name: str, role: Role, slots: int, ahead: int = 1) -> list[Stay]:
    """The boxes of a tensor that L1 holds, in the order in which they come.

    What is read takes the buffer of the box that is read again last (Belady, "A study of
    replacement algorithms for a virtual-storage computer", 1966); of those that are not read again,
    of the one whose last use is longest ago. So with enough buffers all boxes stay.

    slots    its buffers
    ahead    how many boxes before one keep their buffers until it is there: while these are used,
             it is copied
    """
    visits, is_read = _visits(tiles, name), role == "in"
    again = _next_visits([box for box, _ in visits])
    found: list[Stay] = []
    held: list[Stay] = []  # by buffer
    used: list[int] = []  # the number of the last visit to it
    for number, (box, needing) in enumerate(visits):
        there = [slot for slot, stay in enumerate(held) if is_read and stay.box == box]
        if there:
            held[there[0]].tiles += needing
            used[there[0]] = number
            continue
        if len(held) < slots:
            stay = Stay(box, len(held), None, needing)
            held, used = [*held, stay], [*used, number]
        else:
            free = [i for i in range(slots) if number - used[i] > min(ahead, slots - 1)]
            slot = max(free, key=lambda i: (is_read and again[used[i]], -used[i]))
            stay = Stay(box, slot, held[slot], needing)
            held[slot], used[slot] = stay, number
        found.append(stay)
    return found


def _visits(tiles: Sequence[Tile], name: str) -> list[tuple[Box, list[int]]]:
    """The boxes of a tensor one after the other, each with the tiles that need it then."""
    found: list[tuple[Box, list[int]]] = []
    for index, tile in enumerate(tiles):
        box = tile.boxes[name]
        if found and found[-1][0] == box:
            found[-1][1].append(index)
        else:
            found.append((box, [index]))
    return found


def _next_visits(boxes: Sequence[Box]) -> list[float]:
    """For each visit the number of the next one to the same box; infinite if there is none."""
    following: dict[Box, int] = {}
    found: list[float] = []
    for number in reversed(range(len(boxes))):
        found.append(following.get(boxes[number], inf))
        following[boxes[number]] = number
    return found[::-1]


def check_outputs(tensors: Tensors, kept: Mapping[str, list[Stay]]) -> None:
    """Raise ValueError if tiles do not write every element of an output in one stay."""
    for name, part in kept.items():
        tensor = tensors[name]
        if tensor.role == "in":
            continue
        places = {stay.box.start for stay in part}
        elements = sum(stay.box.elements for stay in part)
        if len(places) < len(part) or elements != tensor.elements:
            raise ValueError(
                f"{name}: {len(part)} tiles at {len(places)} places write {elements} elements; it "
                f"has {tensor.elements}, each to be written once: put summed dimensions last"
            )


def schedule(
    tiles: Sequence[Tile],
    tensors: Tensors,
    slots: Mapping[str, int],
    ahead: Mapping[str, int] | None = None,
) -> list[Step]:
    """Return the steps that compute the tiles in order.

    slots    buffers of each tensor
    ahead    how many boxes of a tensor are used while the next one is copied, if more than one: as
             many steps copy a part of it each, if they can

    raises    ValueError if an output is not written once
    """
    most = defaultdict(lambda: 1, ahead or {})
    kept = {
        name: stays(tiles, name, tensors[name].role, count, most[name])
        for name, count in slots.items()
    }
    check_outputs(tensors, kept)
    at = _compute_steps(len(tiles), tensors, kept)
    steps = [Step() for _ in range(at[-1] + 2)]
    for index, tile in enumerate(tiles):
        step = steps[at[index]]
        step.shape, step.each = tile.shape, tile.each
    for name, parts in kept.items():
        for stay in parts:
            for which in stay.tiles:
                steps[at[which]].slots[name] = stay.slot
            if tensors[name].role != "in":
                steps[at[stay.last] + 1].transfers += _transfers(tensors, name, False, stay)
    for name, stay in _loads(tensors, kept, at):
        window = steps[_free(tensors[name], stay, at) : at[stay.first]]
        computing = sum(step.shape is not None for step in window)
        pieces = max(min(most[name], computing), 1)
        for transfer in _transfers(tensors, name, True, stay):
            for part in transfer.copy.cut(pieces):
                least = min(reversed(window), key=lambda step: (step.shape is None, step.bytes))
                least.transfers.append(replace(transfer, copy=part))
    return steps


def _transfers(tensors: Tensors, name: str, to_l1: bool, stay: Stay) -> list[Transfer]:
    return [Transfer(name, stay.slot, to_l1, copy) for copy in copies(tensors[name], stay.box)]


def _compute_steps(count: int, tensors: Tensors, kept: Mapping[str, list[Stay]]) -> list[int]:
    """The step in which each tile is computed: as early as buffers allow."""
    beginning: dict[int, list[tuple[str, Stay]]] = {}
    for name, parts in kept.items():
        for stay in parts:
            beginning.setdefault(stay.first, []).append((name, stay))
    at: list[int] = []
    for tile in range(count):
        step = at[-1] + 1 if at else 0
        for name, stay in beginning.get(tile, []):
            step = max(step, _free(tensors[name], stay, at) + (tensors[name].role != "out"))
        at.append(step)
    return at


def _free(tensor: Tensor, stay: Stay, at: list[int]) -> int:
    """The first step that may write to the buffer of a stay: LEFT after the last use of it."""
    return 0 if stay.before is None else at[stay.before.last] + LEFT[tensor.role]


def _loads(
    tensors: Tensors, kept: Mapping[str, list[Stay]], at: list[int]
) -> list[tuple[str, Stay]]:
    """What is loaded, the first needed first."""
    loads = [
        (name, stay)
        for name, parts in kept.items()
        if tensors[name].role != "out"
        for stay in parts
    ]
    return sorted(loads, key=lambda load: (at[load[1].first], load[0]))

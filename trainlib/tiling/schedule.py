"""When a tile is computed, and when its parts come and go: a schedule of steps, as plain data.

In a step the cores compute what earlier steps have copied, while its own copies start; they end by
the computation of the next. So a part comes in a step before that of the first tile that needs it,
and an output goes in the step after that of the last tile that adds to it. How far the DMA is
ahead follows from the number of buffers alone: with one, a step copies and the next computes; with
two, both happen at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainlib.primitive.slices import Box, TileShape
from trainlib.primitive.tensor import Tensor, Tensors
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
    """A box in L1, from the first to the last of the tiles that need it."""

    box: Box
    tiles: list[int]

    @property
    def first(self) -> int:
        return self.tiles[0]

    @property
    def last(self) -> int:
        return self.tiles[-1]


def stays(tiles: Sequence[Tile], name: str, for_good: bool = False) -> list[Stay]:
    """The boxes of a tensor that L1 holds, one after the other.

    for_good    a box that has come once stays to its last use
    """
    found: list[Stay] = []
    for index, tile in enumerate(tiles):
        box = tile.boxes[name]
        held = [stay for stay in (found if for_good else found[-1:]) if stay.box == box]
        if held:
            held[0].tiles.append(index)
        else:
            found.append(Stay(box, [index]))
    return found


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


def schedule(tiles: Sequence[Tile], tensors: Tensors, slots: Mapping[str, int]) -> list[Step]:
    """Return the steps that compute the tiles in order.

    slots    buffers of each tensor

    raises    ValueError if an output is not written once
    """
    kept = {name: stays(tiles, name, tensors[name].stays) for name in slots}
    check_outputs(tensors, kept)
    at = _compute_steps(len(tiles), tensors, kept, slots)
    steps = [Step() for _ in range(at[-1] + 2)]
    for index, tile in enumerate(tiles):
        step = steps[at[index]]
        step.shape, step.each = tile.shape, tile.each
    for name, parts in kept.items():
        for number, stay in enumerate(parts):
            slot = number % slots[name]
            for which in stay.tiles:
                steps[at[which]].slots[name] = slot
            if tensors[name].role != "in":
                steps[at[stay.last] + 1].transfers += _transfers(tensors, name, slot, False, stay)
    for name, number, earliest in _loads(tensors, kept, slots, at):
        stay = kept[name][number]
        window = steps[earliest : at[stay.first]]
        least = min(reversed(window), key=lambda step: (step.shape is None, step.bytes))
        slot = number % slots[name]
        least.transfers += _transfers(tensors, name, slot, True, stay)
    return steps


def _transfers(tensors: Tensors, name: str, slot: int, to_l1: bool, stay: Stay) -> list[Transfer]:
    return [Transfer(name, slot, to_l1, copy) for copy in copies(tensors[name], stay.box)]


def _compute_steps(
    count: int, tensors: Tensors, kept: Mapping[str, list[Stay]], slots: Mapping[str, int]
) -> list[int]:
    """The step in which each tile is computed: as early as buffers allow."""
    beginning: dict[int, list[tuple[str, int]]] = {}
    for name, parts in kept.items():
        for number, stay in enumerate(parts):
            beginning.setdefault(stay.first, []).append((name, number))
    at: list[int] = []
    for tile in range(count):
        step = at[-1] + 1 if at else 0
        for name, number in beginning.get(tile, []):
            is_loaded = tensors[name].role != "out"
            step = max(step, _free(tensors[name], kept[name], number, slots[name], at) + is_loaded)
        at.append(step)
    return at


def _free(tensor: Tensor, parts: list[Stay], number: int, slots: int, at: list[int]) -> int:
    """The first step that may write to the buffer of a stay: LEFT after the last use of it."""
    return 0 if number < slots else at[parts[number - slots].last] + LEFT[tensor.role]


def _loads(
    tensors: Tensors,
    kept: Mapping[str, list[Stay]],
    slots: Mapping[str, int],
    at: list[int],
) -> Iterator[tuple[str, int, int]]:
    """What is loaded, the first needed first, and the earliest step for it."""
    loads = [
        (at[stay.first], name, number)
        for name, parts in kept.items()
        if tensors[name].role != "out"
        for number, stay in enumerate(parts)
    ]
    for _, name, number in sorted(loads):
        yield name, number, _free(tensors[name], kept[name], number, slots[name], at)

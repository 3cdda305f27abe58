"""Bytes that the table of a tiled program takes, in L1 and in L2, without planning it.

An entry has the commands of a step: those for the parts of all tensors, at most. For all tiles at
once these are the commands for the largest parts. Where L1 is nearly full, that is not enough:
parts at the ends are smaller, but may be copied by more commands, as may those in forms. So there
the tiles at the ends are looked at. Copies in short bursts have longer commands, but only where
there is room for these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from trainlib.primitive.tensor import Tensors
from trainlib.primitive.tile_spec import Sizes
from trainlib.tiling.dma_commands import Copy, copies
from trainlib.tiling.plan import RING, Plan
from trainlib.tiling.schedule import Step, Transfer
from trainlib.tiling.tile_size import Choice, Grid

COMMANDS = (Copy(0, 0, 0), Copy(0, 0, 0, 1, 2, 1))
ANY = {copy.length: Transfer("", 0, True, copy) for copy in COMMANDS}  # a command by its words
LONGEST = max(ANY)
ENDS = 8  # steps before the first tile and after the last one, or of those that are cut, at most
UNSURE = 5  # times as many bytes as expected, or part of them, that an entry may have
UNSURE_IN_FORMS = 8  # whose commands are expected for all tiles alike
MOST_COMMANDS = 2048  # of an entry that are told apart: more do not fit L1


@dataclass(frozen=True)
class Tables:
    """The tables of programs with the tiles of a grid; what does not depend on cores is kept."""

    grid: Grid

    def fitting(self, cores: int, l2: int, wanted: np.ndarray) -> np.ndarray:
        """Which of the tiles that are wanted fit L1 with their entries, and L2 with their tables.

        l2    bytes of L2 that are left
        """
        grid, choice = self.grid, self.grid.choice
        ring = RING * self._expected_entries(cores)
        wanted = wanted & (ring * most_steps(grid) <= RING * l2)
        most = UNSURE_IN_FORMS if choice.tiling.forms else UNSURE
        fits = wanted & (grid.bytes + most * ring <= choice.free)
        unsure = wanted & ~fits & (grid.bytes + ring / UNSURE <= choice.free)
        for at in np.flatnonzero(unsure).tolist():
            entry = self.most_entry(at, cores)
            fits.flat[at] = grid.bytes.flat[at] + RING * entry <= choice.free
        return fits

    def most_entry(self, at: int, cores: int) -> int:
        """Bytes of an entry, at most, with the tiles at a place of the grid."""
        most = self._most_transfers(at, cores)
        [entry] = _entries(self.grid.choice, self.grid.sizes(at), cores, *most)
        return entry

    def _most_transfers(self, at: int, cores: int) -> tuple[list[int], int]:
        if not self.grid.choice.tiling.grows:
            cores = 1  # it is the same for all
        if (at, cores) not in self._known:
            known = _most_transfers(self.grid.choice, self.grid.sizes(at), cores)
            self._known[at, cores] = known
        return self._known[at, cores]

    @cached_property
    def _known(self) -> dict[tuple[int, int], tuple[list[int], int]]:
        return {}

    def _expected_entries(self, cores: int) -> np.ndarray:
        """Bytes of an entry for all tiles, if the largest parts take the most commands."""
        grid, (counts, which) = self.grid, self._expected_commands
        smallest = {dim.name: min(tried) for dim, tried in zip(grid.dims, grid.tried, strict=True)}
        entries = _entries(grid.choice, smallest, cores, counts.tolist())
        return np.array(entries, float)[which].reshape(grid.bytes.shape)

    @cached_property
    def _expected_commands(self) -> tuple[np.ndarray, np.ndarray]:
        """The different numbers of commands, and the index among them for each tile."""
        grid, tensors = self.grid, self.grid.choice.tensors
        commands: np.ndarray = np.zeros(grid.bytes.shape)
        for name in grid.choice.tiling.boxes:
            commands = commands + _commands(grid, name) * _ways(tensors, name)
        return np.unique(np.minimum(commands, MOST_COMMANDS).astype(int), return_inverse=True)


def most_steps(grid: Grid) -> np.ndarray:
    """Steps with tiles of all sizes, at most.

    With one buffer a part is copied in a step and needed in the next; one that is read and written
    also waits for its copy back.
    """
    tiling, tensors = grid.choice.tiling, grid.choice.tensors
    is_both = any(tensors[name].role == "inout" for name in tiling.boxes)
    apart = 1 if grid.choice.buffers > 1 else 4 if is_both else 2
    grown, dims = _grown(grid), zip(grid.parts, grid.dims, strict=True)
    parts = [p + 2 * d.size.bit_length() if d.name in grown else p for p, d in dims]
    return apart * _product(parts) + ENDS


def _grown(grid: Grid) -> set[str | None]:
    """Return the dimensions of which tiles may have several sizes: there are more of them then."""
    tiling = grid.choice.tiling
    if not tiling.grows:
        return set()
    whole = {dim.name: dim.size for dim in tiling.dims}
    by_dim = zip(grid.dims, grid.tried, strict=True)
    return {tiling.grows(whole | {dim.name: size}) for dim, tried in by_dim for size in tried}


def _entries(
    choice: Choice, sizes: Sizes, cores: int, commands: Sequence[int], words: int = LONGEST
) -> list[int]:
    """Return the bytes of entries with so many commands besides that of the entry itself."""
    tiling, slots = choice.tiling, choice.slots(sizes)
    tile = next(tiling.tiles(sizes, choice.tensors, cores, ends_only=True))
    steps = (Step(tile.shape, tile.each, {}, [ANY[words]] * count) for count in commands)
    return [Plan(tiling, [step], slots, {}, {}, cores, False).entry_size for step in steps]


def _most_transfers(choice: Choice, sizes: Sizes, cores: int) -> tuple[list[int], int]:
    """Return a step's most commands besides that of its entry, and the most words of one."""
    tiling, tensors = choice.tiling, choice.tensors
    most, longest = dict.fromkeys(tiling.boxes, 0), min(ANY)
    known = {}
    for tile in tiling.tiles(sizes, tensors, cores, ends_only=True):
        for name, box in tile.boxes.items():
            key = name, box.part
            if key not in known:
                commands = copies(tensors[name], box)
                longest = max(longest, *(command.length for command in commands), 0)
                known[key] = len(commands)
            most[name] = max(most[name], known[key])
    return [sum(count * _ways(tensors, name) for name, count in most.items())], longest


def _ways(tensors: Tensors, name: str) -> int:
    """Return how often a step copies a part of a tensor: to L1, back, or both."""
    return 1 + (tensors[name].role == "inout")


def _commands(grid: Grid, name: str) -> np.ndarray:
    """Return how many commands copy a tensor's largest part: one takes its longest run of lines."""
    choice, tensor = grid.choice, grid.choice.tensors[name]
    if name in choice.tiling.forms:
        return np.ceil(grid.commands(name))
    lengths = [np.maximum(length, 1) for length in grid.part_lengths[name]]
    row = _product(lengths[-tensor.joined :])
    has_no_gap = tensor.row_of(row) == tensor.item * row
    every, longest, lines = np.ones(()), np.ones(()), np.ones(())
    is_run = np.ones((), bool)
    for axis in reversed(range(len(lengths) - 1)):
        follows = tensor.strides[axis] == tensor.strides[axis + 1] * lengths[axis + 1]
        if axis == len(lengths) - 1 - tensor.joined:
            follows = follows & has_no_gap
        is_run = is_run & follows
        ends = ~is_run & ~follows
        every = np.where(ends, every * lines, every)
        longest = np.where(ends, np.maximum(longest, lines), longest)
        lines = np.where(is_run, 1, np.where(ends, lengths[axis], lines * lengths[axis]))
    return every * lines / np.maximum(longest, lines)


def _product(factors: list[np.ndarray]) -> np.ndarray:
    return reduce(np.multiply, factors, np.ones(()))

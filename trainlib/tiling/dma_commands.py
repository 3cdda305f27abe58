"""Boxes of tensors as commands of the DMA: lines on either side, or several commands."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from firmware.drivers import LONGEST, command_words
from trainlib.primitive.l1_layout import Level, Patch
from trainlib.primitive.slices import Box
from trainlib.primitive.tensor import WORD, Tensor
from trainlib.tiling.records import LONGEST_COMMAND, SHORTEST, Far

SHORT_BURSTS = sorted(range(32, 100, 4), key=lambda size: (size % 8, abs(size - 64)))
"""Bytes of a short burst, the best first: about 64, and whole beats of the DMA."""


BURST = 256  # bytes that the DMA asks L2 for at once, at most


@dataclass(frozen=True)
class Copy:
    """A copy between L1 and L2 by one command.

    l1, l2               bytes from the start of the buffer, of the tensor
    size                 bytes
    line                 bytes of a line, 0 if all lies together
    stride, l1_stride    bytes from line to line; a line's own where that side has no gaps
    burst                bytes that L2 is asked for at once, a part of what lies together on both
                         sides; 0: as many as the DMA can
    """

    l1: int
    l2: int
    size: int
    line: int = 0
    stride: int = 0
    l1_stride: int = 0
    burst: int = 0

    @property
    def length(self) -> int:
        """Words of the command."""
        return LONGEST_COMMAND if any(line for line, _ in self._sides) else SHORTEST

    @property
    def in_short_bursts(self) -> "Copy":
        """The same in bursts of about 64 bytes; as it is if lines are short, or have gaps in L1, or
        cannot be divided so.
        """
        together = self.line or self.size
        if self.l1_stride != self.line or together <= max(SHORT_BURSTS):
            return self
        burst = next((size for size in SHORT_BURSTS if together % size == 0), 0)
        return replace(self, burst=burst)

    @property
    def _sides(self) -> list[tuple[int, int]]:
        """Lines and strides of L2 and L1, zeros where all lies together; a burst is a line of L1
        without a gap after it.
        """
        far, near = (
            (self.line, step) if step != self.line else (0, 0)
            for step in (self.stride, self.l1_stride)
        )
        return [far, (self.burst, self.burst) if self.burst else near]

    def cut(self, parts: int) -> "list[Copy]":
        """The same by so many copies of about as many lines, or bursts, or by fewer."""
        unit = self.line or BURST
        near, far = (self.l1_stride, self.stride) if self.line else (unit, unit)
        each = -(-self.size // (unit * parts))
        return [
            replace(self, l1=self.l1 + at * near, l2=self.l2 + at * far, size=size)
            for at in range(0, -(-self.size // unit), each)
            for size in [min(each * unit, self.size - at * unit)]
        ]

    def words(self, to_l1: bool, l1: int, l2: Far, to_all: bool = False) -> list[Any]:
        """The words to store, given where buffer and tensor lie; see command_words."""
        far: Any = l2 + self.l2
        place = l1 + self.l1, far, self.size
        ((line, stride), (l1_line, l1_stride)) = self._sides
        return command_words(to_l1, *place, line, stride, l1_line, l1_stride, to_all=to_all)


def copies(tensor: Tensor, box: Box) -> list[Copy]:
    """The commands that copy a box between the tensor and the buffer that holds just its part.

    Those of a form begin with the shortest: a core waits to start a command while the last one that
    it has started waits itself, so the longest are best the last.
    """
    part = box.part
    start = sum(at * step for at, step in zip(box.start, tensor.strides, strict=True))
    if part.form:
        found = [copy for patch in part.form.patches for copy in _copies(patch, start)]
        return sorted(found, key=lambda copy: copy.size)
    levels = map(Level, part.shape, tensor.strides, part.strides)
    return list(_copies(Patch(0, 0, tuple(levels), tensor.item), start))


def _copies(patch: Patch, start: int) -> Iterator[Copy]:
    """The commands for a patch of a part that starts so many bytes after the tensor."""
    run, levels = patch.runs
    far, near = start + patch.far, patch.near
    if run and not levels:
        for at, size in _pieces(run, LONGEST // WORD * WORD):
            yield Copy(near + at, far + at, size)
    elif run:
        lines = max(levels, key=lambda level: level.times)
        others = [level for level in levels if level is not lines]
        for l1, l2 in _places(others):
            for first, count in _pieces(lines.times, LONGEST // run):
                steps = (lines.far, lines.near) if count > 1 else (run, run)
                places = near + l1 + first * lines.near, far + l2 + first * lines.far
                yield Copy(*places, count * run, run, *steps)


def _places(levels: list[Level]) -> Iterator[tuple[int, int]]:
    """Bytes from the start, in L1 and in L2, of all that the levels repeat."""
    for at in product(*(range(level.times) for level in levels)):
        yield (
            sum(i * level.near for i, level in zip(at, levels, strict=True)),
            sum(i * level.far for i, level in zip(at, levels, strict=True)),
        )


def _pieces(count: int, most: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, most):
        yield first, min(most, count - first)

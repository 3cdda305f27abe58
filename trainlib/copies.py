"""Boxes of tensors as commands of the DMA: lines on either side, or several commands."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from firmware.drivers import LONGEST, Address, command_words
from trainlib.kernels import WORD, Tensor
from trainlib.tiling import Box


@dataclass(frozen=True)
class Copy:
    """What one command copies, between L1 and L2.

    l1, l2               bytes from the start of the buffer, of the tensor
    size                 bytes
    line                 bytes of a line, 0 if all lies together
    stride, l1_stride    bytes from line to line; a line's own where that side has no gaps
    """

    l1: int
    l2: int
    size: int
    line: int = 0
    stride: int = 0
    l1_stride: int = 0

    def words(self, to_l1: bool, l1: int, l2: int, to_all: bool = False) -> list[Address]:
        """The words to store, given where buffer and tensor lie; see command_words."""
        sides = [(self.line, self.stride), (self.line, self.l1_stride)]
        lines = [(line, stride) if line != stride else (0, 0) for line, stride in sides]
        places = l1 + self.l1, l2 + self.l2
        return command_words(to_l1, *places, self.size, *lines[0], *lines[1], to_all=to_all)


@dataclass(frozen=True)
class _Level:
    count: int
    l2: int  # bytes from one to the next
    l1: int


def copies(tensor: Tensor, box: Box) -> list[Copy]:
    """The commands that copy a box between the tensor and a buffer that holds just the box."""
    strides, inside = tensor.strides, [r.start for r in box.copied]
    first = [a + b for a, b in zip(box.start, inside, strict=True)]
    start = sum(at * stride for at, stride in zip(first, strides, strict=True))
    base = sum(at * stride for at, stride in zip(inside, box.part.strides, strict=True))
    run, levels = _levels(tuple(map(len, box.copied)), strides, box.part.strides)
    if run == 0:
        return []
    if not levels:
        pieces = range(0, run, LONGEST // WORD * WORD)
        return [Copy(base + at, start + at, min(pieces.step, run - at)) for at in pieces]
    lines = max(levels, key=lambda level: level.count)
    others = [level for level in levels if level is not lines]
    return [
        Copy(base + l1 + at * lines.l1, start + l2 + at * lines.l2, count * run, run, *steps)
        for l1, l2 in _places(others)
        for at, count in _pieces(lines.count, LONGEST // run)
        for steps in [(lines.l2, lines.l1) if count > 1 else (run, run)]
    ]


def _levels(
    shape: tuple[int, ...], l2: tuple[int, ...], l1: tuple[int, ...]
) -> tuple[int, list[_Level]]:
    """Bytes that lie together on both sides, and what repeats them, innermost first."""
    run, levels = WORD, list[_Level]()
    for count, l2_step, l1_step in reversed(list(zip(shape, l2, l1, strict=True))):
        if count == 0:
            return 0, []
        if count == 1:
            continue
        if not levels and l2_step == l1_step == run:
            run *= count
        elif (
            levels
            and l2_step == levels[-1].l2 * levels[-1].count
            and l1_step == levels[-1].l1 * levels[-1].count
        ):
            levels[-1] = _Level(levels[-1].count * count, levels[-1].l2, levels[-1].l1)
        else:
            levels.append(_Level(count, l2_step, l1_step))
    return run, levels


def _places(levels: list[_Level]) -> Iterator[tuple[int, int]]:
    """Bytes from the start, in L1 and in L2, of all that the levels repeat."""
    for at in product(*(range(level.count) for level in levels)):
        yield (
            sum(i * level.l1 for i, level in zip(at, levels, strict=True)),
            sum(i * level.l2 for i, level in zip(at, levels, strict=True)),
        )


def _pieces(count: int, most: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, most):
        yield first, min(most, count - first)

"""One dimension of a convolution: which input each output reads through each tap of the kernel."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from math import gcd
from typing import NamedTuple


class Read(NamedTuple):
    """Output q of a block reads through a tap the input that lies `place` after its base."""

    q: int
    tap: int
    place: int


class Outputs(NamedTuple):
    """A block of neighbouring outputs, and the input that places count from."""

    start: int
    width: int
    base: int
    reads: tuple[Read, ...]


class BlockRun(NamedTuple):
    """Blocks in a row that read alike, each `step` inputs after the one before."""

    first: Outputs
    times: int
    step: int


class Line(NamedTuple):
    """An output's reads: so many of them from this tap and this input on, at even distances."""

    reads: int
    tap: int
    source: int


@dataclass(frozen=True)
class Axis:
    """A dimension; pad inputs in front of the first one are zero, as are those after the last.

    forward        output o reads through tap t input o * stride - pad + t * dilation
    transposed     input i reads through tap t output o: the other way round
    """

    outputs: int
    inputs: int
    taps: int
    stride: int = 1
    dilation: int = 1
    pad: int = 0
    is_transposed: bool = False

    def source(self, output: int, tap: int) -> int | None:
        """The input that an output reads through a tap, None outside."""
        if self.is_transposed:
            source, rest = divmod(output + self.pad - tap * self.dilation, self.stride)
        else:
            source, rest = output * self.stride - self.pad + tap * self.dilation, 0
        return source if not rest and 0 <= source < self.inputs else None

    @property
    def is_identity(self) -> bool:
        """Does every output read the input at its own place, and no other?"""
        return (self.taps, self.stride, self.pad, self.outputs) == (1, 1, 0, self.inputs)

    @property
    def tap_step(self) -> int:
        """Taps from one that an output reads through to the next."""
        return self.stride // gcd(self.stride, self.dilation) if self.is_transposed else 1

    @property
    def source_step(self) -> int:
        """Inputs from one that an output reads to the next."""
        if not self.is_transposed:
            return self.dilation
        return -self.dilation // gcd(self.stride, self.dilation)

    @property
    def apart(self) -> int:
        """Outputs from one to the next that reads neighbouring inputs; 0: there is none."""
        if self.is_transposed:
            return self.stride
        return 1 if self.stride == 1 else 0

    def base(self, output: int) -> int:
        """The input that a block's places count from, if it starts with this output."""
        return output // self.stride if self.is_transposed else output * self.stride

    @property
    def inverse(self) -> "Axis":
        """The dimension of the gradient: inputs for outputs."""
        swapped = replace(self, outputs=self.inputs, inputs=self.outputs)
        return replace(swapped, is_transposed=not self.is_transposed)

    @property
    def flipped(self) -> "Axis":
        """The same reads through taps counted from the last one; for a stride of 1."""
        pad = (self.taps - 1) * self.dilation - self.pad
        return replace(self, pad=pad, is_transposed=not self.is_transposed)

    def phases(self) -> Iterator["Phase"]:
        """Of a gradient, its outputs that are a stride apart, by the first of them: those read
        through the same taps, at a stride of 1.
        """
        for first in range(min(self.stride, self.outputs)):
            source, tap = divmod(first + self.pad, self.stride)
            outputs = range(first, self.outputs, self.stride)
            taps = range(tap, self.taps, self.stride)
            axis = Axis(len(outputs), self.inputs, len(taps), pad=source, is_transposed=True)
            yield Phase(axis, outputs, taps)

    def line(self, output: int) -> Line:
        """What an output reads."""
        sources = ((tap, self.source(output, tap)) for tap in range(self.taps))
        reads = [(tap, source) for tap, source in sources if source is not None]
        return Line(len(reads), *(reads[0] if reads else (0, 0)))

    @cached_property
    def extents(self) -> tuple[range, ...]:
        """From the first input that each output reads to the last one; empty: it reads none."""
        sources = (
            [source for tap in range(self.taps) if (source := self.source(o, tap)) is not None]
            for o in range(self.outputs)
        )
        return tuple(range(min(read), max(read) + 1) if read else range(0) for read in sources)

    def readers(self, tap: int) -> list[int]:
        """The outputs that read something through a tap."""
        return [o for o in range(self.outputs) if self.source(o, tap) is not None]

    @cached_property
    def reads_through(self) -> tuple[int, ...]:
        """How many inputs all outputs read through each tap, those of padding not counted."""
        return tuple(len(self.readers(tap)) for tap in range(self.taps))

    @cached_property
    def reads(self) -> int:
        """How many inputs all outputs read, those of padding not counted."""
        return sum(self.reads_through)

    @property
    def middle(self) -> range:
        """The outputs none of whose reads is outside."""
        reach, last = (self.taps - 1) * self.dilation, self.inputs - 1
        if self.is_transposed:
            start, stop = reach - self.pad, self.inputs * self.stride - self.pad
        else:
            start = -(-self.pad // self.stride)
            stop = (last + self.pad - reach) // self.stride + 1
        start = min(max(start, 0), self.outputs)
        return range(start, max(min(stop, self.outputs), start))

    def starts(self, width: int, *, is_trimmed: bool, lanes: int = 1) -> list[int]:
        """Where blocks start, and the end; trimmed: that of the middle starts with it.

        lanes    what blocks start with a multiple of
        """
        cuts = list(range(0, self.outputs, width))
        if is_trimmed and self.middle:
            start = -(-self.middle.start // lanes) * lanes
            cuts = [*range(0, start, width), *range(start, self.outputs, width)]
        return [*cuts, self.outputs]

    def block(self, start: int, width: int) -> Outputs:
        """Some neighbouring outputs."""
        base = self.base(start)
        reads = (
            Read(q, tap, source - base)
            for tap in range(self.taps)
            for q in range(width)
            if (source := self.source(start + q, tap)) is not None
        )
        return Outputs(start, width, base, tuple(reads))

    def runs(self, width: int, *, is_trimmed: bool = False, lanes: int = 1) -> list[BlockRun]:
        """All outputs in blocks of a width, those in a row that read alike taken together.

        is_trimmed    blocks at the borders are as short as can be, and thus their code
        lanes         what blocks start with a multiple of
        """
        return list(_runs(self, width, is_trimmed, lanes))


class Phase(NamedTuple):
    """Outputs of a gradient with a stride that read through the same taps.

    axis             how they read inputs, taps counted by themselves
    outputs, taps    which of all they are
    """

    axis: Axis
    outputs: range
    taps: range


@cache
def _runs(axis: Axis, width: int, is_trimmed: bool, lanes: int) -> tuple[BlockRun, ...]:
    runs: list[BlockRun] = []
    for start, end in pairwise(axis.starts(width, is_trimmed=is_trimmed, lanes=lanes)):
        block = axis.block(start, end - start)
        if runs:
            first, times, step = runs[-1]
            here = block.base - first.base - (times - 1) * step
            if block[1::2] == first[1::2] and (times == 1 or here == step):
                runs[-1] = BlockRun(first, times + 1, here)
                continue
        runs.append(BlockRun(block, 1, 0))
    return tuple(runs)

"""The shape of a convolution, and the axes of its tensors in either layout."""

from dataclasses import dataclass
from typing import Any, Protocol

from trainlib.conv.axis import Axis
from trainlib.conv.conv2d import Layout
from trainlib.reference.conv2d import Sliding

IMAGES = {"chw": (0, 1, 2, 3), "hwc": (0, 2, 3, 1)}
"""Where the axes of a tensor come from: image, channel, line, place; those of weights likewise."""


@dataclass(frozen=True)
class Shape:
    """A whole convolution; pads are on top, at the bottom, left, right."""

    inputs: int
    outputs: int
    ys: Axis
    xs: Axis
    pads: tuple[int, int, int, int]
    groups: int
    batch: int
    layout: Layout

    @property
    def macs(self) -> int:
        """Multiply-adds of inputs: those with padding are no work."""
        channels = self.outputs * self.inputs // self.groups
        return self.batch * channels * self.ys.reads * self.xs.reads

    @property
    def sliding(self) -> Sliding:
        """For the reference."""
        ys, xs = self.ys, self.xs
        steps = (ys.stride, xs.stride), (ys.dilation, xs.dilation)
        return Sliding(*steps, self.pads, self.groups)

    def sizes(self, role: str) -> tuple[int, ...]:
        """Elements by axis of the operand of a role, in its layout."""
        channels = self.inputs // self.groups
        of = {
            "x": (self.batch, self.inputs, self.ys.inputs, self.xs.inputs),
            "y": (self.batch, self.outputs, self.ys.outputs, self.xs.outputs),
            "w": (self.outputs, channels, self.ys.taps, self.xs.taps),
        }
        return tuple(of[role][axis] for axis in IMAGES[self.layout])


class Wanted(Protocol):
    """Arguments of a convolution."""

    @property
    def shape(self) -> Shape: ...

    @property
    def bias(self) -> bool: ...

    @property
    def accumulate(self) -> bool: ...

    @property
    def is_added(self) -> bool: ...

    @property
    def by_columns(self) -> bool: ...

    @property
    def by_dma(self) -> bool: ...

    @property
    def likely_cores(self) -> int: ...

    @property
    def tile(self) -> dict[str, int] | None: ...

    @property
    def point(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Times:
    """Of an axis, `count` elements for each of a dimension."""

    dim: str
    count: int

    def of(self, there: range) -> range:
        """The range of the axis."""
        return range(there.start * self.count, there.stop * self.count)

    def phase(self, there: range) -> int:
        """Nothing else is to be known."""
        return 0


def by_axis(values: tuple[int, ...], layout: Layout) -> tuple[int, int, int, int]:
    """Values of a tensor's axes as those of image, channel, line, place."""
    image, channel, line, place = (values[IMAGES[layout].index(axis)] for axis in range(4))
    return image, channel, line, place

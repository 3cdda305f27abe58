"""Tiles of convolutions in groups that have a part of a group's channels.

Where no group fits L1 as a whole: channels are two axes here, groups and those of a group, and
tiles are cut along both. The code for a tile has them as one again.
"""

from dataclasses import dataclass, replace

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.conv.passes import GROUPS, RATE, UNIT, Step
from trainlib.conv.shape import IMAGES, Wanted
from trainlib.primitive.slices import Axis, TensorSlice, TileShape
from trainlib.primitive.tensor import Addresses, Tensors
from trainlib.primitive.tile_spec import Dim, Tiling

CHANNELS = {"x": "ci", "y": "co"}


@dataclass(frozen=True)
class GroupTiles:
    """A step, and what is wanted of it in several groups."""

    step: Step
    a: Wanted

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the dimensions."""
        s = self.a.shape
        axes = (s.ys.inputs, s.xs.inputs) if self.step.result == "x" else (
            s.ys.outputs, s.xs.outputs
        )  # fmt: skip
        channels = {"co": s.outputs // s.groups, "ci": s.inputs // s.groups}
        return {"n": s.batch, "y": axes[0], "x": axes[1], "g": s.groups, **channels}

    @property
    def tensors(self) -> Tensors:
        """Operands by name, with an axis for groups."""
        found = {}
        for name, tensor in self.step.tensors(self.a).items():
            axis, shape = self._axis(name), tensor.shape
            groups = self.a.shape.groups
            split = groups, shape[axis] // groups
            found[name] = replace(tensor, shape=(*shape[:axis], *split, *shape[axis + 1 :]))
        return found

    def _axis(self, name: str) -> int:
        """The axis of a tensor that has the channels of all groups."""
        if name in (self.step.bias, self.step.names["w"]):
            return 0
        return IMAGES[self.a.shape.layout].index(1)

    @property
    def tiling(self) -> Tiling:
        """How it is cut."""
        step, sizes = self.step, self.sizes
        inner = {"y": ("co", "ci"), "x": ("ci", "co")}.get(step.result)
        order = ("n", "y", "x", "g", *inner) if inner else ("g", "co", "ci", "n", "y", "x")
        summed = inner[1:] if inner else ("n", "y", "x")
        units = {"co": UNIT, "ci": UNIT, "g": 1 if inner else GROUPS}
        dims = (
            Dim(name, sizes[name], min(units.get(name, 1), sizes[name]), name in summed)
            for name in order
        )
        taps = self.a.shape.ys.taps * self.a.shape.xs.taps
        return Tiling(tuple(dims), self._boxes(), self._emit, rate=RATE / taps)

    def _boxes(self) -> dict[str, tuple[Axis, ...]]:
        step, cut = self.step, dict.fromkeys(("y", "x"), "")
        boxes: dict[str, tuple[Axis, ...]] = {}
        for role, name in step.names.items():
            axes: list[tuple[Axis, ...]] = [("g", "co"), ("ci",), (None,), (None,)]
            if role != "w":
                looks = step.looks(self.a, cut, role)
                axes = [("n",), ("g", CHANNELS[role]), *((look,) for look in looks)]
            boxes[name] = tuple(a for axis in IMAGES[self.a.shape.layout] for a in axes[axis])
        if self.a.bias and step.biased:
            boxes[step.bias] = "g", CHANNELS[step.biased]
        return boxes

    def _emit(self, k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        parts = tuple((name, self._joined(name, part)) for name, part in tile.parts)
        bias = at.get(self.step.bias)
        with k.scope():
            if isinstance(bias, Register) and not tile.is_first:
                k.free(bias)  # sums have it already
            self.step.emit(k, team, self.a, replace(tile, parts=parts), at)

    def _joined(self, name: str, part: TensorSlice) -> TensorSlice:
        """A part with the channels of its groups as one axis."""
        axis, shape = self._axis(name), part.shape
        last = axis + 2 == len(shape)
        return replace(
            part,
            shape=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]),
            before=part.before[:axis] + part.before[axis + 1 :],
            after=part.after[:axis] + part.after[axis + 1 :],
            phase=part.phase[:axis] + part.phase[axis + 1 :],
            row=part.row * shape[axis] if last else part.row,
        )

"""Fully connected layers and convolutions of 1 x 1: their arguments, and what they differ in."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.elementwise.fused_update import Updating
from trainlib.gemm.conv1x1 import (
    Pointwise,
    pwconv2d_fw_f32,
    pwconv2d_ig_f32,
    pwconv2d_wg_by_tiles,
    pwconv2d_wg_f32,
)
from trainlib.gemm.linear import linear_fw_f32, linear_ig_f32, linear_wg_f32
from trainlib.gemm.matmul_ops import POINT
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.element import F32
from trainlib.primitive.slices import Axis
from trainlib.primitive.tile_spec import Dim

LARGEST = 1 << 20  # elements of a dimension
STAYS = 1 << 11  # elements of an image that stays in L1
WIDE = 1 << 10  # places of a line that is cut
BURST = 64  # elements that the DMA fetches at a time
PAD = 1  # words after rows of an even length: they begin in different banks
EVEN = range(16, LARGEST + 1, 2)
Size = Callable[[str], int]
"""Elements of a tile by dimension."""


class Layer(TiledArguments):
    """A fully connected layer; the blocking is that of matmul_f32.

    X[batch, inputs]    W[outputs, inputs]    Y[batch, outputs]

    bias          one for each output; or the gradient of it
    accumulate    add to what the outputs hold
    """

    inputs: int = Field(ge=1, le=LARGEST)
    outputs: int = Field(ge=1, le=LARGEST)
    batch: int = Field(1, ge=1, le=LARGEST)
    bias: bool = False
    accumulate: bool = False
    rows: int | None = Field(None, ge=1)
    cols: int | None = Field(None, ge=1)
    unroll: int = Field(1, ge=1)
    split: tuple[int, int] | None = None

    @property
    def added(self) -> float | str | None:
        """What whole results are multiplied by before they are added; None: they are not."""
        return None

    @property
    def is_added(self) -> bool:
        """Do results hold something before, which must be added to once?"""
        return self.accumulate or self.added is not None

    @property
    def clips(self) -> bool:
        """Is there a ReLU?"""
        return False

    @property
    def point(self) -> dict[str, Any]:
        """The blocking."""
        return {name: getattr(self, name) for name in POINT}

    def unit(self, step: str) -> int:
        """Channels of a tile: with a batch of 1, each of 8 cores has 4 sums to work on at least."""
        return BURST if self.streams(step) else 8 if self.batch > 1 else 32

    def in_halves(self, step: str) -> dict[str, Dim]:
        """Dimensions of tiles where sums are halves: of few channels, as they have all inputs."""
        return {
            name: replace(dim, unit=min(8, dim.size)) if name != "n" else dim
            for name, dim in self.dims(step).items()
        }

    def dims(self, step: str) -> dict[str, Dim]:
        """Dimensions of tiles by name."""
        unit = self.unit(step)
        return {
            "n": Dim("n", self.batch),
            "co": Dim("co", self.outputs, min(unit, self.outputs)),
            "ci": Dim("ci", self.inputs, min(unit, self.inputs)),
        }

    @property
    def places(self) -> int:
        """Places of all images."""
        return self.batch

    def streams(self, step: str) -> bool:
        """Does the DMA take longer than the cores, who use each weight for one image only?"""
        return step != "wg" and self.batch == 1 and min(self.inputs, self.outputs) >= BURST

    def in_l1(self, step: str) -> dict[str, dict[str, Any]]:
        """Where parts of tensors lie in L1, if not just anywhere.

        The DMA writes two banks in a cycle, then the next two. A core that multiplies eight rows
        of W side by side, two banks apart, moves on at the same pace and never meets it for long.
        X is loaded before W: two banks before it.
        """
        if step == "wg":
            return {}
        if self.batch > 1:
            return self.apart("W", "X" if step == "fw" else "dY")
        small = {"X": self.inputs, "dY": self.outputs}
        how: dict[str, dict[str, Any]] = {n: {"stays": s <= STAYS} for n, s in small.items()}
        if step == "fw" and self.inputs >= BURST:
            how["W"] = {"skew": 2, "bank": 0}
            how["X"] |= {"bank": 14}
        return how

    def apart(self, *names: str) -> dict[str, dict[str, Any]]:
        """Rows of these, which cores read side by side, begin in different banks."""
        rows = {"X": self.inputs, "W": self.inputs, "dY": self.outputs}
        return {name: {"pad": PAD} for name in names if rows[name] in EVEN}

    @property
    def paired(self) -> str:
        """The step whose sums have even and odd products of halves apart."""
        return "fw"

    @property
    def period(self) -> int | None:
        """Products of the paired step after which an even one comes again; None: all of them."""
        return None

    @property
    def joined(self) -> int:
        """Axes of images that make a row of halves in L1."""
        return 1

    def opens(self, step: str) -> bool:
        """Do sums of halves stay in two lanes from tile to tile?"""
        return False

    def uncut(self, step: str) -> set[str]:
        """Dimensions that tiles of halves have all of, so that sums have one order."""
        return {"ci"} if step == self.paired else set()

    @property
    def lines(self) -> dict[str, str]:
        """What matmul_f32 calls the bytes from one row of an operand to the next."""
        return {"W": "b_line", "X": "a_line", "dY": "a_line"}

    def image(self, channels: int) -> tuple[int, ...]:
        """Shape of what goes in or comes out."""
        return (self.batch, channels)

    def axes(self, channels: str | None) -> tuple[Axis, ...]:
        """What its axes follow."""
        return ("n", channels)

    def matrix(self, array: np.ndarray) -> np.ndarray:
        """What goes in or comes out as [places, channels]."""
        return array

    def from_matrix(self, array: np.ndarray) -> np.ndarray:
        """The other way round."""
        return array

    def emit(self, step: str, tile: Size, k: Kernel, team: Team, *at: Any, **how: Any) -> None:
        """Emit a step for a tile."""
        emit: Any = {"fw": linear_fw_f32, "wg": linear_wg_f32, "ig": linear_ig_f32}[step]
        emit(k, team, *at, tile("n"), tile("ci"), tile("co"), **how)

    def product(self, step: str, tile: Size) -> tuple[int, int, int]:
        """Rows, inner dimension and columns of the product of a step."""
        rows, ci, co = self._rows(tile), tile("ci"), tile("co")
        return {"fw": (rows, ci, co), "wg": (co, rows, ci), "ig": (rows, co, ci)}[step]

    def products(self, step: str, tile: Size) -> tuple[int, tuple[int, int, int]]:
        """How many products a step is, and the rows, inner dimension and columns of each."""
        return 1, self.product(step, tile)

    def stored(self, step: str) -> dict[str, bool]:
        """Which of a product's operands are stored with rows for columns."""
        return {"trans_a": step == "wg", "trans_b": step == "fw"}

    def _rows(self, tile: Size) -> int:
        """What is multiplied by the same weights."""
        return tile("n")


class LinearForward(Layer):
    """Its outputs.

    relu    Y is 0 where it would be less
    """

    relu: bool = False

    @property
    def clips(self) -> bool:
        """Is there a ReLU?"""
        return self.relu


class LinearGradient(Layer, Updating):
    """The gradient of a fully connected layer's weights; with scale, dW += scale dY^T X."""

    @property
    def is_summed(self) -> bool:
        """The product adds a gradient by itself."""
        return super().is_summed and not self.is_plain

    @property
    def added(self) -> float | str | None:
        """What whole results are multiplied by before the product adds them; None: it does not."""
        return None if self.is_summed else self.scale

    @property
    def is_added(self) -> bool:
        """Do results hold something before, which must be added to once?"""
        return self.accumulate or self.scale is not None


class PointwiseLayer(Layer):
    """A convolution of 1 x 1.

    X[batch, inputs, height, width]    W[outputs, inputs]    Y[batch, outputs, height, width]

    layout    "chw": as above; "hwc": channels after lines and places
    """

    height: int = Field(ge=1, le=LARGEST)
    width: int = Field(ge=1, le=LARGEST)
    layout: Literal["chw", "hwc"] = "chw"

    def unit(self, step: str) -> int:
        """Channels of a tile."""
        return 8

    def in_l1(self, step: str) -> dict[str, dict[str, Any]]:
        """Rows that cores read side by side begin in different banks."""
        images = ["X" if step == "fw" else "dY"] if self.layout == "hwc" else []
        return {} if step == "wg" else self.apart("W", *images)

    @property
    def lines(self) -> dict[str, str]:
        """What matmul_f32 calls the bytes from one row of an operand to the next."""
        return {"W": "a_line"} if self.layout == "chw" else super().lines

    @property
    def paired(self) -> str:
        """The step whose sums have even and odd products of halves apart."""
        return "wg" if self.layout == "chw" else "fw"

    @property
    def period(self) -> int | None:
        """Products of the paired step after which an even one comes again; None: all of them."""
        return self.height * self.width if self.layout == "chw" else None

    @property
    def joined(self) -> int:
        """Axes of images that make a row of halves in L1."""
        return 2 if self.layout == "chw" else 1

    def opens(self, step: str) -> bool:
        """Do sums of halves stay in two lanes from tile to tile?"""
        return step == "wg" == self.paired and self.height * self.width > 1

    def uncut(self, step: str) -> set[str]:
        """Dimensions that tiles of halves have all of: lines begin with an even place, or are not
        cut.
        """
        if not self.opens(step):
            return super().uncut(step) if step == "fw" else set()
        return {"x"} | ({"y"} if self.width % 2 else set())

    def in_halves(self, step: str) -> dict[str, Dim]:
        """Dimensions of tiles where sums are halves: of one image, where a tile may be a part."""
        dims = self.dims(step)
        if step == "wg":
            dims["n"] = replace(dims["n"], limit=1)
        return dims

    def dims(self, step: str) -> dict[str, Dim]:
        """Dimensions of tiles by name."""
        own = {"y": Dim("y", self.height)}
        if self.is_wide:
            own["x"] = Dim("x", self.width)
        return super().dims(step) | own

    @property
    def is_wide(self) -> bool:
        """Are lines cut too?"""
        return self.width > WIDE

    def _places(self, tile: Size) -> int:
        """Places of a tile's images."""
        return tile("y") * (tile("x") if self.is_wide else self.width)

    def streams(self, step: str) -> bool:
        """Never: weights are used for many places."""
        return False

    @property
    def places(self) -> int:
        """Places of all images."""
        return self.batch * self.height * self.width

    def image(self, channels: int) -> tuple[int, ...]:
        """Shape of what goes in or comes out."""
        size = self.height, self.width
        return (self.batch, *((channels, *size) if self.layout == "chw" else (*size, channels)))

    def axes(self, channels: str | None) -> tuple[Axis, ...]:
        """What its axes follow."""
        x = "x" if self.is_wide else None
        return ("n", channels, "y", x) if self.layout == "chw" else ("n", "y", x, channels)

    def matrix(self, array: np.ndarray) -> np.ndarray:
        """What goes in or comes out as [places, channels]."""
        last = np.moveaxis(array, 1, 3) if self.layout == "chw" else array
        return last.reshape(-1, last.shape[3])

    def from_matrix(self, array: np.ndarray) -> np.ndarray:
        """The other way round."""
        last = array.reshape(self.batch, self.height, self.width, -1)
        return np.moveaxis(last, 3, 1) if self.layout == "chw" else last

    def emit(self, step: str, tile: Size, k: Kernel, team: Team, *at: Any, **how: Any) -> None:
        """Emit a step for a tile."""
        of = self._places(tile), tile("n"), self.layout, how.pop("element", F32)
        shape = Pointwise(tile("ci"), tile("co"), *of)
        emit: Any = {"fw": pwconv2d_fw_f32, "wg": pwconv2d_wg_f32, "ig": pwconv2d_ig_f32}[step]
        if "sums" in how:
            emit = pwconv2d_wg_by_tiles
        emit(k, team, *at, shape, **how)

    def product(self, step: str, tile: Size) -> tuple[int, int, int]:
        """Rows, inner dimension and columns of the product of a step."""
        if self.layout == "hwc":
            return super().product(step, tile)
        ci, co, places = tile("ci"), tile("co"), self._places(tile)
        return {"fw": (co, ci, places), "wg": (co, places, ci), "ig": (ci, co, places)}[step]

    def products(self, step: str, tile: Size) -> tuple[int, tuple[int, int, int]]:
        """How many products a step is, and the rows, inner dimension and columns of each."""
        return tile("n") if self.layout == "chw" else 1, self.product(step, tile)

    def stored(self, step: str) -> dict[str, bool]:
        """Which of a product's operands are stored with rows for columns."""
        if self.layout == "hwc":
            return super().stored(step)
        return {"trans_a": step == "ig", "trans_b": step == "wg"}

    def _rows(self, tile: Size) -> int:
        """What is multiplied by the same weights."""
        return tile("n") * self._places(tile)


class PointwiseForward(PointwiseLayer, LinearForward):
    """Its outputs; relu: Y is 0 where it would be less."""


class PointwiseGradient(PointwiseLayer, Updating):
    """The gradient of its weights."""

    @property
    def is_added(self) -> bool:
        """Do results hold something before, which must be added to once?"""
        return self.accumulate or self.scale is not None

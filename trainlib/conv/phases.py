"""Convolutions in phases, where no tile of all of it fits L1.

One with tiles that have a part of a group's channels, see trainlib.conv.grouped_tiles. And one for
the gradient of a bias: tiles that add to it must not meet a place of an image twice. So where these
overlap, as those of a transposed convolution do, images are not cut while both gradients are
computed together.
"""

from collections.abc import Callable
from typing import Any

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.conv.grouped_tiles import GroupTiles
from trainlib.conv.passes import UNIT, Step
from trainlib.conv.shape import IMAGES
from trainlib.primitive.phases import Phase, Phases
from trainlib.primitive.slices import TileShape
from trainlib.primitive.tensor import Addresses
from trainlib.primitive.tile_spec import Dim, Tiling
from trainlib.reduction.reduce import reduce_f32
from trainlib.reduction.row_reduction import SCRATCH


def in_phases(step: Step) -> Callable[[Any], Phases]:
    """All of it by tiles that have a part of a group's channels; the gradient of a bias after that
    of the weights.
    """

    def phases(a: Any) -> Phases:
        has_bias = step.result == "w" and a.bias
        first = _by_groups(step, a.model_copy(update={"bias": False}) if has_bias else a)
        return Phases([first, _bias(step, a)] if has_bias else [first])

    return phases


def _by_groups(step: Step, a: Any) -> Phase:
    name = {"w": "weights", "y": "outputs", "x": "inputs"}[step.result]
    tiling, tensors = step.tiling(a), step.tensors(a)
    if a.shape.groups > 1:
        tiles = GroupTiles(step, a)
        tiling, tensors = tiles.tiling, tiles.tensors
    return Phase(name, tiling, tensors, {n: (n, 0) for n in tensors})


def _bias(step: Step, a: Any) -> Phase:
    """Sums over images, lines and places, by tiles that are named as those of the weights are."""
    assert step.biased
    image, channels = step.names[step.biased], "ci" if step.biased == "x" else "co"
    tensors = {name: step.tensors(a)[name] for name in (image, step.bias)}
    box = tuple(("n", channels, "y", "x")[axis] for axis in IMAGES[a.shape.layout])
    sizes = dict(zip(box, tensors[image].shape, strict=True))
    summed = tuple(axis for axis, name in enumerate(box) if name != channels)

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        places = at[image], at[step.bias], at["partials"]
        adds = a.accumulate or not tile.is_first
        reduce_f32(k, team, *places, tile.part(image).shape, summed, accumulate=adds)

    unit = min(UNIT, sizes[channels])
    dims = Dim(channels, sizes[channels], unit), *(Dim(n, sizes[n], is_summed=True) for n in "nyx")
    tiling = Tiling(dims, {image: box, step.bias: (channels,)}, emit, lambda _: dict(SCRATCH))
    return Phase("bias", tiling, tensors, {name: (name, 0) for name in tensors})

"""The gradient of a convolution's bias by itself, where tiles of the weights' gradient have none.

Tiles that add to a bias must not meet a place of an image twice. So where these overlap, as those
of a transposed convolution do, images are not cut while both gradients are computed together; what
does not fit L1 then is computed in two phases.
"""

from collections.abc import Callable
from typing import Any

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.conv.shape import IMAGES
from trainlib.conv.steps import UNIT, Step
from trainlib.primitive.boxes import TileShape
from trainlib.primitive.phases import Phase, Phases
from trainlib.primitive.tensor import Addresses
from trainlib.primitive.tiling import Dim, Tiling
from trainlib.rows.reduce import reduce_f32
from trainlib.rows.sweep import SCRATCH


def in_phases(step: Step) -> Callable[[Any], Phases]:
    """The gradient of the weights by tiles, then that of the bias, if there is one."""

    def phases(a: Any) -> Phases:
        weights = a.model_copy(update={"bias": False})
        tensors = step.tensors(weights)
        each = [Phase("weights", step.tiling(weights), tensors, {n: (n, 0) for n in tensors})]
        return Phases([*each, _bias(step, a)] if a.bias else each)

    return phases


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

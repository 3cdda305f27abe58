"""ATen's windows of images as columns, and columns added up as images, as nodes."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.importers.aten_importer import Importer, Rule, pair
from trainlib.deploy.importers.aten_shapes import gathered, part

Pair = tuple[int, int]


def _places(shape: Sequence[int], kernel: Pair, dilation: Pair, stride: Pair) -> np.ndarray:
    """What lies in each window of an image that has its padding: [n, c kh kw, windows]."""
    n, c, *sizes = shape
    numbers = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    sides = zip(sizes, kernel, dilation, stride, strict=True)
    places = [
        np.arange(k)[:, None] * d + np.arange((size - d * (k - 1) - 1) // s + 1) * s
        for size, k, d, s in sides
    ]
    rows, columns = places[0][:, None, :, None], places[1][None, :, None, :]
    windows = rows.shape[2] * columns.shape[3]
    return numbers[:, :, rows, columns].reshape(n, c * prod(kernel), windows)


def _columns(i: Importer, x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> str:
    shape, name, (height, width) = i.shape(x), i.name(x), pair(padding)
    whole = (*(1,) * (4 - len(shape)), *shape)
    name = i.graph.reshaped(name, whole)
    if height or width:
        sides = (0, 0, height, width)
        name = i.node("pad", {"x": name}, before=sides, after=sides, value=0.0)["y"]
    padded = i.graph.values[name].shape
    y = gathered(i, name, _places(padded, pair(kernel), pair(dilation), pair(stride)))
    return y if len(shape) == 4 else i.graph.reshaped(y, i.graph.values[y].shape[1:])


def _image(
    i: Importer, x: Any, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> str:
    """What windows have of a place is added up; padding is left out."""
    shape, name = i.shape(x), i.name(x)
    n, rows, _ = (*(1,) * (3 - len(shape)), *shape)
    (height, width), (above, before) = pair(size), pair(padding)
    channels = rows // prod(pair(kernel))
    padded = (n, channels, height + 2 * above, width + 2 * before)
    places = _places(padded, pair(kernel), pair(dilation), pair(stride))
    given = {
        "index": i.constant(places.reshape(-1)),
        "dy": i.graph.reshaped(name, (places.size, 1)),
    }
    y = i.node("put", given, entries=prod(padded))["dtable"]
    own = (n, channels, height, width)
    y = part(i, i.graph.reshaped(y, padded), (0, 0, above, before), own)
    return y if len(shape) == 3 else i.graph.reshaped(y, own[1:])


RULES: dict[str, Rule] = {"col2im": _image, "im2col": _columns}

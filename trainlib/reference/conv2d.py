"""Convolutions of batches of images and their gradients, tap by tap.

    x[n, ci, h, w]    w[co, ci / groups, s, t]    y[n, co, ho, wo]

Each returns exact values in float64 and the largest errors of float32.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.tolerances import summed


@dataclass(frozen=True)
class Sliding:
    """How kernels slide over images; pads are those on top, at the bottom, left, right.

    skips    nothing is multiplied with padding: what is not finite gives nothing there; else it
             gives NaN, as PyTorch's convolutions have it
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    skips: bool = False

    def padded(self, x: np.ndarray) -> np.ndarray:
        """Images with zeros around them."""
        top, bottom, left, right = self.pads
        return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))

    def windows(
        self, taps: tuple[int, ...], outputs: tuple[int, ...], size: tuple[int, ...]
    ) -> Iterator[tuple[int, int, tuple[slice, slice], tuple[slice, slice]]]:
        """For each tap, the lines and places of outputs that read through it, and those of padded
        images that they read.

        size    lines and places of images without padding
        """
        for s, t in np.ndindex(*taps):
            of = zip((s, t), outputs, size, (0, 1), strict=True)
            ys, xs = (self._window(*axis) for axis in of)
            yield s, t, (ys[0], xs[0]), (ys[1], xs[1])

    def _window(self, tap: int, outputs: int, size: int, axis: int) -> tuple[slice, slice]:
        step, shift, pad = self.stride[axis], tap * self.dilation[axis], self.pads[2 * axis]
        first, end = 0, outputs
        if self.skips:
            first = min(max(0, -((shift - pad) // step)), outputs)
            end = min(outputs, (size - 1 + pad - shift) // step + 1)
        if end <= first:
            return slice(0), slice(0)
        start = shift + first * step
        return slice(first, end), slice(start, start + (end - first - 1) * step + 1, step)

    def by_group(self, array: np.ndarray, axis: int) -> np.ndarray:
        """Split an axis of channels into groups and channels of each."""
        shape = array.shape
        split = (self.groups, shape[axis] // self.groups)
        return array.reshape(*shape[:axis], *split, *shape[axis + 1 :])


def outputs_of(x: tuple[int, ...], taps: tuple[int, ...], how: Sliding) -> tuple[int, ...]:
    """Height and width of what comes out."""
    pads = how.pads[0] + how.pads[1], how.pads[2] + how.pads[3]
    sizes = zip(x, pads, taps, how.dilation, how.stride, strict=True)
    return tuple((n + p - d * (k - 1) - 1) // s + 1 for n, p, k, d, s in sizes)


def forward(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, start: np.ndarray | None, how: Sliding
) -> Expected:
    """Y = convolution of X with W, plus a bias of each channel, plus what Y held."""
    terms = w[0].size + (bias is not None) + (start is not None)
    results = []
    for a, b, c, d in _pairs(x, w, bias, start):
        y = _forward(a, b, how)
        if c is not None:
            y = y + c[:, None, None]
        results.append(y if d is None else y + d)
    return summed(results[0], terms, results[1])


def _forward(x: np.ndarray, w: np.ndarray, how: Sliding) -> np.ndarray:
    outputs = outputs_of(x.shape[2:], w.shape[2:], how)
    images, kernels = how.by_group(how.padded(x), 1), how.by_group(w, 0)
    y = np.zeros((len(x), how.groups, len(w) // how.groups, *outputs))
    for s, t, at, read in how.windows(w.shape[2:], outputs, x.shape[2:]):
        y[:, :, :, *at] += np.einsum("gri,ngiyx->ngryx", kernels[..., s, t], images[:, :, :, *read])
    return y.reshape(len(x), len(w), *outputs)


def input_gradient(
    dy: np.ndarray,
    w: np.ndarray,
    size: tuple[int, int],
    start: np.ndarray | None,
    how: Sliding,
    bias: np.ndarray | None = None,
) -> Expected:
    """dX of images of that size; with a bias of each channel, a transposed convolution."""
    terms = len(w) // how.groups * w[0, 0].size + (start is not None) + (bias is not None)
    results = []
    for a, b, c, d in _pairs(dy, w, bias, start):
        dx = _input_gradient(a, b, size, how)
        if c is not None:
            dx = dx + c[:, None, None]
        results.append(dx if d is None else dx + d)
    return summed(results[0], terms, results[1])


def _input_gradient(
    dy: np.ndarray, w: np.ndarray, size: tuple[int, int], how: Sliding
) -> np.ndarray:
    channels = w.shape[1] * how.groups
    dx = how.padded(np.zeros((len(dy), channels, *size)))
    gradients, kernels = how.by_group(dy, 1), how.by_group(w, 0)
    for s, t, at, read in how.windows(w.shape[2:], dy.shape[2:], size):
        part = np.einsum("gri,ngryx->ngiyx", kernels[..., s, t], gradients[:, :, :, *at])
        dx[:, :, *read] += part.reshape(len(dy), channels, *part.shape[3:])
        if not how.skips and not np.isfinite(kernels[..., s, t]).all():
            is_spread = ~np.isfinite(kernels[..., s, t]).all(1).reshape(channels)
            blank = np.full(dx.shape[2:], np.nan)  # columns hold zeros where no dY is
            blank[read] = 0
            dx[:, is_spread] += blank
    top, _, left, _ = how.pads
    return dx[:, :, top : top + size[0], left : left + size[1]]


def weight_gradient(
    dy: np.ndarray,
    x: np.ndarray,
    taps: tuple[int, int],
    start: np.ndarray | None,
    how: Sliding,
) -> Expected:
    """dW of kernels of that size."""
    terms = dy[:, 0].size + (start is not None)
    results = []
    for a, b, _, d in _pairs(dy, x, None, start):
        images, gradients = how.by_group(how.padded(b), 1), how.by_group(a, 1)
        dw = np.zeros((a.shape[1], images.shape[2], *taps))
        for s, t, at, read in how.windows(taps, a.shape[2:], b.shape[2:]):
            some = gradients[:, :, :, *at], images[:, :, :, *read]
            part = np.einsum("ngryx,ngiyx->gri", *some)
            dw[..., s, t] = part.reshape(dw.shape[:2])
        results.append(dw if d is None else dw + d)
    return summed(results[0], terms, results[1])


def bias_gradient(dy: np.ndarray, start: np.ndarray | None) -> Expected:
    """The sum of each channel's gradients."""
    terms = dy[:, 0].size + (start is not None)
    results = []
    for a, _, _, d in _pairs(dy, dy, None, start):
        results.append(a.sum((0, 2, 3)) + (0 if d is None else d))
    return summed(results[0], terms, results[1])


Operands = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]


def _pairs(
    a: np.ndarray, b: np.ndarray, c: np.ndarray | None, d: np.ndarray | None
) -> Iterator[Operands]:
    """The operands in float64, then their absolute values."""
    wide = [None if array is None else array.astype(np.float64) for array in (a, b, c, d)]
    for values in (wide, [None if array is None else abs(array) for array in wide]):
        first, second, *others = values
        assert first is not None
        assert second is not None
        yield first, second, others[0], others[1]

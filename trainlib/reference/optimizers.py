"""Steps of optimisers in float64, and how far float32 may be from them."""

from typing import Any

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.primitive.tensor import Arrays
from trainlib.reference.activations import Array, Outputs, bounded, may_overflow, wide


def _slope(w: Array, g: Array, weight_decay: float) -> tuple[Array, Array]:
    """The gradient with the decay, and its size; without one, what w is does not matter."""
    if not weight_decay:
        return g, np.abs(g)
    return g + weight_decay * w, np.abs(g) + weight_decay * np.abs(w)


def sgd(w: Array, g: Array, lr: float, weight_decay: float) -> Outputs:
    w, g = wide(w, g)
    slope, size = _slope(w, g, weight_decay)
    with np.errstate(invalid="ignore"):
        return (bounded(w - lr * slope, w, lr * slope, 4 * lr * size),)


def sgd_momentum(
    w: Array, b: Array, g: Array, lr: float, momentum: float, weight_decay: float, nesterov: bool
) -> Outputs:
    w, b, g = wide(w, b, g)
    slope, size = _slope(w, g, weight_decay)
    total, largest = momentum * b + slope, momentum * np.abs(b) + size
    step, most = (slope + momentum * total, size + largest) if nesterov else (total, largest)
    return bounded(w - lr * step, w, lr * step, 8 * lr * most), bounded(total, 5 * largest)


def accumulate(g: Array, x: Array, scale: float) -> Outputs:
    g, x = wide(g, x)
    return (bounded(g + scale * x, g, 3 * scale * np.abs(x)),)


def adam(values: Arrays, lr: float, options: Any, is_decoupled: bool) -> Outputs:
    """w, m and v after the step; options has betas, eps and weight_decay."""
    w, m, v, corrections, g = wide(*(values[name] for name in "w m v corrections g".split()))
    (first, second), weight_decay = options.betas, options.weight_decay
    kept = w * (1 - lr * weight_decay) if is_decoupled else w
    slope, size = _slope(w, g, 0.0 if is_decoupled else weight_decay)
    mean, largest = first * m + (1 - first) * slope, first * np.abs(m) + (1 - first) * size
    square = second * v + (1 - second) * slope**2
    square_size = second * v + (1 - second) * size**2
    root = np.sqrt(square / corrections[1]) + options.eps
    with np.errstate(invalid="ignore"):
        change = lr / corrections[0] * mean / root
        most = lr / corrections[0] * largest / root * (1 + square_size / np.maximum(square, 1e-300))
    ways = size**2, square_size, largest / root
    return (
        may_overflow(bounded(kept - change, 3 * w, 12 * most), *ways),
        bounded(mean, 4 * largest),
        may_overflow(bounded(square, 6 * square_size), *ways),
    )


def corrections(last: Array, betas: tuple[float, float]) -> Expected:
    (last,) = wide(last)
    keeps = np.array(betas)
    return bounded(1 - keeps * (1 - last), 4 * (1 - keeps + keeps * np.abs(last)))

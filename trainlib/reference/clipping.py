"""Values kept within limits, in float64."""

import numpy as np

from trainlib.reference.activations import Array, Outputs, bounded, wide


def clamp_fw(x: Array, low: float | None, high: float | None) -> Outputs:
    (x,) = wide(x)
    least, most = (None if n is None else float(np.float32(n)) for n in (low, high))
    return ((np.clip(x, least, most), 0.0),)


def clamp_bw(
    x: Array, dy: Array, low: float | None, high: float | None, passes_limits: bool
) -> Outputs:
    """0 where x is NaN."""
    x, dy = wide(x, dy)
    compare = np.less_equal if passes_limits else np.less
    within = np.ones(x.shape, bool)
    if low is not None:
        within &= compare(float(np.float32(low)), x)
    if high is not None:
        within &= compare(x, float(np.float32(high)))
    return ((np.where(within, dy, 0.0), 0.0),)


def abs_fw(x: Array) -> Outputs:
    return ((np.abs(*wide(x)), 0.0),)


def abs_bw(x: Array, dy: Array) -> Outputs:
    x, dy = wide(x, dy)
    sign = (x > 0) * 1.0 - (x < 0)
    with np.errstate(invalid="ignore"):
        return (bounded(dy * sign, 0.0),)

"""How far a float32 result may be from the exact one."""

from typing import TypeVar

import numpy as np

ROUNDING = 2.0**-24  # of float32, relative
UNDERFLOW = 2.0**-150  # absolute
OVERFLOW = 2.0**128 - 2.0**103  # rounds to infinity

Number = TypeVar("Number", np.ndarray, float)


def of_sum(terms: int, magnitude: Number) -> Number:
    """The largest error of a sum of products in float32.

    terms        products and what else is added
    magnitude    the sum of their absolute values

    Any order of n rounded multiply-adds stays within n u / (1 - n u) times the magnitude.
    source    N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.5
    """
    relative = terms * ROUNDING / (1 - terms * ROUNDING)
    return relative * magnitude + terms * UNDERFLOW


def summed(exact: np.ndarray, terms: int, magnitude: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A sum of products as float32 has it, and its largest error: see of_sum."""
    return overflowing(exact), on_the_way(of_sum(terms, magnitude), magnitude)


def overflowing(exact: np.ndarray) -> np.ndarray:
    """Infinity for what rounds to it."""
    return np.where(np.abs(exact) >= OVERFLOW, np.copysign(np.inf, exact), exact)


def on_the_way(bound: np.ndarray | float, *magnitudes: np.ndarray) -> np.ndarray:
    """An error's bound; none where finite numbers may overflow before the result is there.

    magnitudes    of what is added up, and of products on the way

    Infinity is then as right as what float64 says, and so is NaN, the difference of two of them.
    """
    result = np.asarray(bound)
    for magnitude in magnitudes:
        is_beyond = np.isfinite(magnitude) & (magnitude >= OVERFLOW)
        result = np.where(is_beyond, np.inf, result)
    return result

"""How far a float32 result may be from the exact one."""

from typing import TypeVar

import numpy as np

ROUNDING = 2.0**-24  # of float32, relative
UNDERFLOW = 2.0**-150  # absolute

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

"""What every primitive means, in float64, and how far float32 may be from it."""

import numpy as np

ROUNDING = 2.0**-24  # of float32, relative
UNDERFLOW = 2.0**-150  # absolute


def matmul(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return C = A B and the largest error of a float32 result, element by element.

    shapes    A[n, k], B[k, m], C[n, m]

    Any order of k rounded multiply-adds stays within k u / (1 - k u) * |A| |B|.
    source    N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.5
    """
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    terms = a.shape[1]
    relative = terms * ROUNDING / (1 - terms * ROUNDING)
    with np.errstate(invalid="ignore"):  # infinity times zero is the operands' business
        return wide_a @ wide_b, relative * (abs(wide_a) @ abs(wide_b)) + terms * UNDERFLOW

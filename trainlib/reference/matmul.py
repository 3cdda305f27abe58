"""Products of matrices."""

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference.tolerances import summed


def matmul(a: np.ndarray, b: np.ndarray, *starts: np.ndarray | None) -> Expected:
    """A B, plus what there is to start with, in float64, and the largest error of float32.

    shapes    A[n, k], B[k, m]; starts broadcast to [n, m]
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinity times zero is the operands' business
        exact, magnitude, terms = a @ b, abs(a) @ abs(b), a.shape[1]
        for start in starts:
            if start is not None:
                exact, magnitude, terms = exact + start, magnitude + abs(start), terms + 1
        return summed(exact, terms, magnitude)

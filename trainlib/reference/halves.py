"""Arithmetic of FP16 and bfloat16 that rounds as the hardware does: once an operation, to nearest.

Values of halves are kept as float64, which holds each of them, and each product of two, exactly.
A sum is first rounded to odd: where it is inexact, its lowest bit is set. So the rounding to a half
that follows sees on which side of a tie it is.

Source: S. Boldo, G. Melquiond, Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using
Rounding to Odd, IEEE Transactions on Computers, 2008.
"""

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.primitive.tensor import WORD


def rounded(dtype: np.dtype, values: np.ndarray) -> np.ndarray:
    """The nearest numbers of a type, ties to even, as float64."""
    kind = ml_dtypes.finfo(dtype)
    _, exponent = np.frexp(values)
    lowest = np.maximum(exponent - 1, kind.minexp) - kind.nmant
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.ldexp(np.rint(np.ldexp(values, -lowest)), lowest)
        return np.where(abs(near) > float(kind.max), np.copysign(np.inf, near), near)


def _to_odd(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """p + q, with its lowest bit set where it is inexact."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = p + q
        part = total - p
        error = (p - (total - part)) + (q - part)
    bits = np.ascontiguousarray(total).view(np.int64)
    is_even = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return (bits + np.where(is_even, step, 0)).view(np.float64)


def multiply_add(dtype: np.dtype, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a b + c, rounded once."""
    with np.errstate(invalid="ignore", over="ignore"):
        return rounded(dtype, _to_odd(*np.broadcast_arrays(a * b, c)))


def add(dtype: np.dtype, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b, rounded once."""
    return rounded(dtype, _to_odd(*np.broadcast_arrays(a, b)))


def subtract(dtype: np.dtype, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b, rounded once."""
    return add(dtype, a, -b)


def divide(dtype: np.dtype, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b in single precision, rounded to the type: no core has a division of halves."""
    with np.errstate(all="ignore"):
        return rounded(dtype, (a.astype(np.float32) / b.astype(np.float32)).astype(np.float64))


def multiply(dtype: np.dtype, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b, rounded once."""
    with np.errstate(invalid="ignore", over="ignore"):
        return rounded(dtype, a * b)


def sums_in_single(terms: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """The start, if any, and terms[k, n], one after the other: each sum is single precision."""
    sums = np.zeros(terms.shape[1], np.float32) if start is None else start.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for term in terms.astype(np.float32):
            sums = sums + term
    return sums.astype(np.float64)


def rounded_matmul(
    dtype: np.dtype,
    a: np.ndarray,
    b: np.ndarray,
    start: np.ndarray | None,
    in_halves: bool,
    period: int | None = None,
) -> np.ndarray:
    """A B, or A B + start: one multiply-add after the other, each rounded to the type.

    shapes       A[n, k], B[k, m]; start broadcasts to [n, m]
    in_halves    even and odd steps are summed up apart, then added; the start is in the even sums
    period       steps after which an even one comes again; None: all of them
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    count = 2 if in_halves else 1
    nothing = np.zeros((a.shape[0], b.shape[1]))
    sums = [] if start is None else [nothing + start.astype(np.float64), nothing][:count]
    for step in range(a.shape[1]):
        column, row, lane = a[:, step, None], b[None, step], step % (period or a.shape[1]) % count
        if lane == len(sums):  # the first product is no sum: it may be -0
            sums.append(rounded(dtype, column * row))
        else:
            sums[lane] = multiply_add(dtype, column, row, sums[lane])
    return add(dtype, *sums) if in_halves else sums[0]


def rounded_once(dtype: np.dtype, results: Mapping[str, Expected]) -> dict[str, Expected]:
    """What results of single precision are when they are stored as a type; integers stay.

    A correct one lies between the roundings of both ends of what is correct before: mostly, that is
    one number, and the bound 0.
    """
    if dtype.itemsize == WORD:
        return dict(results)
    return {name: _between(dtype, *result) for name, result in results.items()}


def with_rounding(dtype: np.dtype, result: Expected) -> Expected:
    """A result of which a factor has been rounded to a type already."""
    exact, bound = result
    kind = ml_dtypes.finfo(dtype)
    with np.errstate(invalid="ignore"):
        size = np.nan_to_num(np.abs(exact), posinf=0.0)
        return exact, bound + float(kind.eps) / 2 * size + float(kind.smallest_subnormal) / 2


def _between(dtype: np.dtype, exact: np.ndarray, bound: np.ndarray | float) -> Expected:
    if exact.dtype.kind == "i":
        return exact, bound
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = rounded(dtype, exact - bound), rounded(dtype, exact + bound)
        is_one = (low == high) | np.isnan(exact) | (np.asarray(bound) == 0)
        middle = np.where(is_one, rounded(dtype, exact), (low + high) / 2)
        return middle, np.where(is_one, 0.0, np.abs(high - low) / 2)

"""Forms of float operations, compiled, and what compares them."""

from collections.abc import Callable
from functools import cache

import numba
from numba import types

SIGNATURE = types.UniTuple(types.int64, 2)(*[types.int64] * 4)
"""Of a form: operands a, b, c and rounding mode; result and flags."""
FORM, OPERANDS = types.FunctionType(SIGNATURE), [types.int64[::1]] * 4


@cache
def comparison(function: Callable, *takes: types.Type) -> Callable:
    """Compile what compares forms: once for all of them, since it calls each by its address."""
    return numba.njit(types.int64(*takes))(function)

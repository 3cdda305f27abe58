"""Forms of float operations, compiled, and what compares them."""

from collections.abc import Callable
from functools import cache

import numba
from numba import types

from soc.aot.kept_steps import keep

SIGNATURE = types.UniTuple(types.int64, 2)(*[types.int64] * 4)
"""Of a form: operands a, b, c and rounding mode; result and flags."""
FORM, OPERANDS = types.FunctionType(SIGNATURE), [types.int64[::1]] * 4


def compiled(form: Callable) -> Callable:
    """Compile a form; its code is kept for the next run of tests."""
    dispatcher = keep(numba.njit(form))
    dispatcher.compile(SIGNATURE)
    return dispatcher


@cache
def comparison(function: Callable, *takes: types.Type) -> Callable:
    """Compile what compares forms: once for all of them, since it calls each by its address."""
    return numba.njit(types.int64(*takes))(function)

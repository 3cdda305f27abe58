"""Bit sets of harts and initiators."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

ONE = np.uint64(1)


def lowest_index(mask):
    """Return the index of the lowest set bit of a uint64; it has one."""
    mask = int(mask)
    return (mask & -mask).bit_length() - 1


@intrinsic
def _count_trailing_zeros(typing, mask):
    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@overload(lowest_index, inline="always")
def _lowest_index_compiled(mask):
    return lambda mask: _count_trailing_zeros(mask)


def bit(index):
    """Return the set of one member."""
    return np.uint64(1) << np.uint64(index)


@overload(bit, inline="always")
def _bit_compiled(index):
    return lambda index: np.uint64(1) << np.uint64(index)

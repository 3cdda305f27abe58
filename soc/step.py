"""The decorator of step functions: plain Python that Numba compiles, called by both engines."""

import numba

step = numba.njit(nogil=True, error_model="numpy")
"""Compile a step function; the interpreter lock is released while it runs."""

inlined_step = numba.njit(nogil=True, error_model="numpy", forceinline=True)
"""The same for the few functions on the hottest path, which LLVM must inline."""

"""The decorator of step functions: plain Python that Numba compiles, called by both engines."""

import numba

OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
"""Nothing is allocated on the way, so arrays need not be counted: faster to compile and to run."""

step = numba.njit(**OPTIONS)
"""Compile a step function; the interpreter lock is released while it runs."""

inlined_step = numba.njit(**OPTIONS, forceinline=True)
"""The same for the few functions on the hottest path, which LLVM must inline."""

kept_step = numba.njit(**OPTIONS, cache=True)
"""The same, kept on disk: for the entries of generated modules."""

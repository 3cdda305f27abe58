"""The decorator of step functions: plain Python that Numba compiles, called by both engines."""

import os

import numba

BUILDING = "PULPSIM_BUILDING"
"""Set in the process that builds a generated module: see soc.build_interpreter."""

OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
"""The interpreter lock is released while step functions run. Nothing is allocated on the way, so
arrays need not be counted: faster to compile and to run."""

_LINKED_ONLY = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Who only calls step functions from others needs no way into them from Python."""

_INNER = OPTIONS | (_LINKED_ONLY if BUILDING in os.environ else {})

step = numba.njit(**_INNER)
"""Compile a step function."""

inlined_step = numba.njit(**_INNER, forceinline=True)
"""The same for the few functions on the hottest path, which LLVM must inline."""

kept_step = numba.njit(**OPTIONS, cache=True)
"""The same, kept on disk: for the entries of generated modules."""

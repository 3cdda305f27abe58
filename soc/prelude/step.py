"""Step functions: plain Python that is compiled, called by both engines.

Called by another one, a step function is compiled with it, into the same unit (soc.aot.unit).
Called by Python itself, as tests do, it runs as it is written; or, if soc.aot.numba_steps is
imported, it is compiled then and there.
"""

from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from typing import Any


class Step:
    """A step function.

    function      as it is written: the same in plain Python, to debug it
    is_inlined    LLVM must inline it
    is_cold       LLVM must not: it happens rarely, and inlined it would burden what is hot
    keeps_types   every variable keeps its type: hundreds of branches compile faster then
    """

    def __init__(
        self,
        function: Callable,
        is_inlined: bool = False,
        is_cold: bool = False,
        keeps_types: bool = False,
    ):
        update_wrapper(self, function)
        self.function, self.keeps_types = function, keeps_types
        self.is_inlined, self.is_cold = is_inlined, is_cold

    def __call__(self, *arguments: Any) -> Any:
        return (self.dispatcher if _compiler else self.function)(*arguments)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's object for it; there is one once soc.aot.numba_steps is imported."""
        return _compiler[0](self.function, self.is_inlined, self.is_cold, self.keeps_types)


_compiler: list[Callable] = []


def compile_steps_with(compiler: Callable) -> None:
    """Let Python's calls of step functions be compiled from now on.

    compiler    takes what a Step has, returns what is called in its place
    """
    _compiler[:] = [compiler]


step = Step
"""Compile a step function."""

inlined_step = partial(Step, is_inlined=True)
"""The same for the few functions on the hottest path, which LLVM must inline."""

cold_step = partial(Step, is_cold=True)
"""The same for what is rare beside such a path, which LLVM must not inline there."""

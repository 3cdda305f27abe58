"""Step functions: plain Python that is compiled, called by both engines.

Called by another one, a step function is compiled with it, into the same unit (soc.linking). Called
by Python itself, which only tests and the curious do, it is compiled by Numba then and there.
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
        return self.dispatcher(*arguments)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's object for it."""
        from soc.step_types import dispatcher

        return dispatcher(self.function, self.is_inlined, self.is_cold, self.keeps_types)


step = Step
"""Compile a step function."""

inlined_step = partial(Step, is_inlined=True)
"""The same for the few functions on the hottest path, which LLVM must inline."""

cold_step = partial(Step, is_cold=True)
"""The same for what is rare beside such a path, which LLVM must not inline there."""

"""Plain functions that compiled code may call: each stands for something that Numba can call."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba.extending import typeof_impl

_forms: dict[Callable, Any] = {}


def compile_as(function: Callable, form: Any) -> None:
    """Let compiled calls of a function be calls of this form of it, which Numba knows how to call.

    Wherever calls are compiled from now on; the last form counts.
    """
    _forms[function] = form


@typeof_impl.register(FunctionType)
def _typeof_function(value: FunctionType, context: object) -> object:
    form = _forms.get(value)
    return None if form is None else typeof_impl(form, context)

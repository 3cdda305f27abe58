"""Something that takes place in a later cycle."""

from collections.abc import Callable
from typing import Any

from simpy import Environment


def later(env: Environment, cycles: float, action: Callable, *what: Any) -> None:
    """Call action(*what) so many cycles from now; 0: in this one, behind what was said before."""
    env.timeout(cycles).callbacks.append(lambda _: action(*what))

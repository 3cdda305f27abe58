"""Python's cyclic garbage collector, which searches a growing program again and again in vain."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Collect nothing in the body, or in the function that this decorates.

    It is for building programs: hundreds of thousands of objects, nearly all of which stay.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

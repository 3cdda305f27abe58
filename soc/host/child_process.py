"""A process that another one has started ends with it: see soc.host.compile_process."""

import os
from threading import Thread


def end_with(pipe: int) -> None:
    """End this process as soon as the other side of a pipe is closed, as it is when that ends.

    A byte that comes lets it go on alone.
    """
    Thread(target=_wait_for, args=(pipe,), daemon=True).start()


def _wait_for(pipe: int) -> None:
    if not os.read(pipe, 1):
        os._exit(1)

"""A process that another one has started ends with it: see soc.host.compile_process."""

import json
import os
import sys
from threading import Thread
from typing import Any


def read_order() -> Any:
    """What this process has to do: a line of JSON on standard input.

    raises    SystemExit if none comes, since who has started it has ended before
    """
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        raise SystemExit(1)
    return json.loads(line)


def end_with(pipe: int) -> None:
    """End this process as soon as the other side of a pipe is closed, as it is when that ends.

    A byte that comes lets it go on alone.
    """
    Thread(target=_wait_for, args=(pipe,), daemon=True).start()


def _wait_for(pipe: int) -> None:
    if not os.read(pipe, 1):
        os._exit(1)

"""Signals that end a command: Ctrl-C, SIGTERM, SIGHUP.

The first ends what is going on, as KeyboardInterrupt: recordings are closed, processes ended,
temporary files removed. A later one ends the command at once.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AT_ONCE = 1.0
"""Seconds in which another signal is the same wish: `timeout` sends each of its own twice."""
SOON = 0.01
"""Seconds after which an interrupt is raised again that has been lost."""

received = 0
"""The signal that ends this command, 0 if none has come."""

_sentence = ""
_is_at_work = False
_received_at = 0.0


def take_over(sentence: str) -> None:
    """Let signals end this process with a sentence, at once as long as it is not at work.

    Signals that it was started to ignore remain ignored.
    """
    global _sentence
    _sentence = sentence
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)
    sys.unraisablehook = _raise_again


@contextmanager
def at_work() -> Iterator[None]:
    """Let a signal end the body as KeyboardInterrupt; what comes after the body is not ended."""
    global _is_at_work
    if not _sentence:
        yield
        return
    _is_at_work = True
    try:
        yield
    finally:
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _handle(number: int, frame: FrameType | None) -> None:
    global received, _received_at
    if received and monotonic() - _received_at < AT_ONCE:
        return
    if received or not _is_at_work:
        with suppress(OSError):
            os.write(2, f"{_sentence}\n".encode())
        os._exit(128 + number)
    received, _received_at = number, monotonic()
    raise KeyboardInterrupt


def _raise_again(lost: Any) -> None:
    """An interrupt that came where Python lets no exception out, such as a finaliser."""
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
    elif _is_at_work:
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, SOON)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def deferred() -> Iterator[None]:
    """Let signals for which Python has a handler wait until the body has ended."""
    came: list[tuple[int, FrameType | None]] = []
    before = dict[int, Any]()
    if current_thread() is main_thread():  # the only one in which Python handles them
        for number in ENDING:
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler
                signal.signal(number, lambda *signalled: came.append(signalled))
    try:
        yield
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)
        for signalled in came:
            before[signalled[0]](*signalled)

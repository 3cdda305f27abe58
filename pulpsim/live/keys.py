"""Keys as they are pressed, and the terminal as it was before."""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

ESCAPE = "\x1b"
SEQUENCES = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "[H": "home",
    "[F": "end",
    "[1~": "home",
    "[4~": "end",
    "[5~": "page up",
    "[6~": "page down",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "OH": "home",
    "OF": "end",
}
"""What terminals send behind an escape (xterm's control sequences)."""

NAMED = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "quit",
    "\x04": "quit",
    " ": "space",
}


class Keys:
    """The keys of a terminal without lines, echo and signals."""

    def __init__(self, file: int):
        self.file = file
        self.waiting = ""
        self.is_ended = False

    def get(self, seconds: float) -> str:
        """The next key, "" if there is none in that time; "quit" once asked to end."""
        if self.is_ended:
            return "quit"
        if not self.waiting:
            self._read(seconds)
        return self._next() if self.waiting else ""

    def _read(self, seconds: float) -> None:
        try:
            if select.select([self.file], [], [], seconds)[0]:
                data = os.read(self.file, 1024)
                self.is_ended = not data  # nobody is there any more
                self.waiting += data.decode("utf-8", "replace")
        except OSError:
            self.is_ended = True

    def _next(self) -> str:
        if self.waiting == ESCAPE:  # by itself, or is more on the way?
            self._read(0.03)
        if self.waiting[0] == ESCAPE:
            for sequence, name in SEQUENCES.items():
                if self.waiting.startswith(sequence, 1):
                    self.waiting = self.waiting[1 + len(sequence) :]
                    return name
            if self.waiting[1:2] in ("[", "O"):  # some other key: let it go as a whole
                self.waiting = self.waiting[2:].lstrip("0123456789;?")[1:]
                return "unknown"
        key, self.waiting = self.waiting[0], self.waiting[1:]
        return "escape" if key == ESCAPE else NAMED.get(key, key)


@contextmanager
def raw_keys() -> Iterator[Keys]:
    """Standard input by keys; whatever happens, the terminal gets back what it was."""
    file = sys.stdin.fileno()
    keys = Keys(file)

    def end(*_: object) -> None:
        keys.is_ended = True

    before = termios.tcgetattr(file)
    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.signal(number, end) for number in handled]
    try:
        tty.setraw(file, termios.TCSANOW)
        _keep_output_processing(file)
        yield keys
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
        for number, handler in zip(handled, handlers, strict=True):
            signal.signal(number, handler)


def _keep_output_processing(file: int) -> None:
    """Let a new line begin at the left."""
    mode = termios.tcgetattr(file)
    mode[1] |= termios.OPOST | termios.ONLCR
    termios.tcsetattr(file, termios.TCSANOW, mode)

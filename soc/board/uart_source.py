"""Sources of what the UART receives: a file, the standard input, or a pseudo-terminal."""

import os
import stat
import sys
import tty
from collections.abc import Callable
from functools import cache
from pathlib import Path

from soc.config.toml import ConfigError

STDIN, TERMINAL = "-", "pty"


class Source:
    """Bytes that have come, and more where they come from.

    read    returns some more, none at the end
    """

    def __init__(self, read: Callable[[], bytes]):
        self.read, self.data, self.is_open = read, bytearray(), True

    def byte(self, position: int) -> int | None:
        """A byte, once it is there; None past the end. A run that begins anew finds all again."""
        while self.is_open and position >= len(self.data):
            more = self.read()
            self.data += more
            self.is_open = bool(more)
        return self.data[position] if position < len(self.data) else None


def _say(text: str) -> None:
    """Tell of a pseudo-terminal at once: a run that waits for what comes from it has no end yet."""
    print(text, file=sys.stderr, flush=True)


def source_of(name: str, tell: Callable[[str], None] = _say) -> Source:
    """The bytes of a source.

    name      path of a file; "-": standard input; "pty": a new pseudo-terminal. A process has one
              of both.
    tell      gets the path of the pseudo-terminal's other end
    raises    ConfigError for a file that cannot be read
    """
    if name == STDIN:
        return _stdin()
    if name == TERMINAL:
        source, other = _terminal()
        tell(f"uart: the other end of its line is {other}")
        return source
    file = Path(name)
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise ConfigError([f"uart.source {name!r}: no regular file"])
        source = Source(bytes)
        source.data += file.read_bytes()
    except OSError as error:
        raise ConfigError([f"uart.source {name!r}: {error.strerror}"]) from None
    return source


@cache
def _stdin() -> Source:
    return Source(lambda: os.read(sys.stdin.fileno(), 4096))


@cache
def _terminal() -> tuple[Source, str]:
    ours, theirs = os.openpty()
    tty.setraw(theirs)  # else what is written there comes with \r before each \n

    def read() -> bytes:
        try:
            return os.read(ours, 4096)
        except OSError:  # the other end is closed
            return b""

    return Source(read), os.ttyname(theirs)

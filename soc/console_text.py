"""The console's text: bytes that a program prints become text as they come, a line at a time.

A character's address names its core (soc.peripherals.console). While a core is in the midst of a
line, what other cores print waits: their whole lines follow in the order in which they were ended,
then the oldest unfinished one goes on.
"""

import codecs
from collections.abc import Callable
from typing import NamedTuple

NEWLINE = 0x0A


class ConsoleState(NamedTuple):
    """Where a console is in the midst of lines and characters, as plain data."""

    decoder: tuple[bytes, int]
    owner: int | None  # writer of the line that is being printed
    whole: bytes  # lines that wait for its end
    begun: tuple[tuple[int, bytes], ...]  # unfinished lines of other writers, the oldest first


class ConsoleText:
    """The text of one run.

    on_text    gets what is new of it
    limit      bytes that are kept; those after them are counted alone
    is_raw     bytes keep the order in which they are stored, whoever stores them

    printed    bytes so far
    text       parts of the text so far
    """

    def __init__(self, on_text: Callable[[str], None], limit: int, is_raw: bool = False):
        self.on_text, self.limit, self.is_raw = on_text, limit, is_raw
        self._shown = 0  # characters that on_text has had, also before the run has begun anew
        self.begin()

    def begin(self) -> None:
        """Begin anew: what is printed again is not new."""
        self.printed = self._written = 0
        self.text: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._owner: int | None = None
        self._whole = b""
        self._begun: dict[int, bytes] = {}

    def put(self, byte: int, writer: int = 0) -> None:
        """Take the next byte of a writer: cluster * 16 + core."""
        self.printed += 1
        if self.printed > self.limit:
            return
        if self.is_raw or self._owner in (None, writer):
            self._write(bytes([byte]))
            self._owner = writer
            if byte == NEWLINE:
                self._let_others_go_on()
        else:
            self._begun[writer] = self._begun.get(writer, b"") + bytes([byte])
            if byte == NEWLINE:
                self._whole += self._begun.pop(writer)

    def finish(self) -> None:
        """Print what waits, each unfinished line on a line of its own: the run is over."""
        rest = self.rest
        self._whole, self._begun, self._owner = b"", {}, None
        if rest:
            self._write(rest)

    @property
    def rest(self) -> bytes:
        """What waits for the end of a line."""
        lines = self._whole + b"\n".join(self._begun.values())
        return b"\n" + lines if lines else b""

    @property
    def everything(self) -> str:
        """The text so far, and after it what waits."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.setstate(self._decoder.getstate())
        return "".join(self.text) + decoder.decode(self.rest)

    def _let_others_go_on(self) -> None:
        """After a line's end: whole lines that wait, then the oldest unfinished one goes on."""
        whole, self._whole, self._owner = self._whole, b"", None
        if self._begun:
            self._owner = next(iter(self._begun))
            whole += self._begun.pop(self._owner)
        if whole:
            self._write(whole)

    def _write(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        if text:
            self.text.append(text)
            self._written += len(text)
            if self._written > self._shown:
                self._shown = self._written
                self.on_text(text)

    @property
    def state(self) -> ConsoleState:
        """Where it is in the midst of lines and characters."""
        begun = tuple(self._begun.items())
        return ConsoleState(self._decoder.getstate(), self._owner, self._whole, begun)

    def restore(self, text: list[str], printed: int, state: ConsoleState) -> None:
        """Let it be where it was, without on_text getting what it has had."""
        self.text[:], self.printed = text, printed
        self._written = self._shown = sum(map(len, text))
        decoder, self._owner, self._whole, begun = state
        self._decoder.setstate(decoder)
        self._begun = dict(begun)

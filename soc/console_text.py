"""What a program prints on its console: bytes that become text as they come."""

import codecs
from collections.abc import Callable

DecoderState = tuple[bytes, int]


class ConsoleText:
    """The text of one run.

    on_text    gets what is new of it
    limit      bytes that are kept; those after them are counted alone

    printed    bytes so far
    text       parts of the text so far
    """

    def __init__(self, on_text: Callable[[str], None], limit: int):
        self.on_text, self.limit = on_text, limit
        self._shown = 0  # characters that on_text has had, also before the run has begun anew
        self.begin()

    def begin(self) -> None:
        """Begin anew: what is printed again is not new."""
        self.printed = self._written = 0
        self.text: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def put(self, byte: int) -> None:
        """Take the next byte."""
        self.printed += 1
        if self.printed > self.limit:
            return
        text = self._decoder.decode(bytes([byte]))
        if text:
            self.text.append(text)
            self._written += len(text)
            if self._written > self._shown:
                self._shown = self._written
                self.on_text(text)

    @property
    def decoder(self) -> DecoderState:
        """Where it is in the middle of a character."""
        return self._decoder.getstate()

    def restore(self, text: list[str], printed: int, decoder: DecoderState) -> None:
        """Let it be where it was, without on_text getting what it has had."""
        self.text[:], self.printed = text, printed
        self._written = self._shown = sum(map(len, text))
        self._decoder.setstate(decoder)

"""A connection to one debugger: bytes in and out, over a socket or a pipe."""

import os
import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from pulpsim.gdb.packet import LARGEST, Framer, Signal, packet

CHUNK = 1 << 16
MOST_WAITING = 1 << 10
"""Packets that wait to be answered; a debugger waits for each answer, so it never has as many."""


class Channel:
    """Packets that come, and answers that go.

    source, sink     file descriptors
    others           that are looked at meanwhile: on_other is called when one is ready
    is_open          the debugger is there
    acknowledges     packets that come
    """

    def __init__(
        self,
        source: int,
        sink: int,
        others: tuple[int, ...] = (),
        on_other: Callable[[], object] = lambda: None,
    ):
        self.source, self.sink, self.others, self.on_other = source, sink, others, on_other
        self.is_open, self.acknowledges = True, True
        self._framer = Framer()
        self._waiting: deque[bytes | Signal] = deque()
        self._last = b""
        self._text = ""

    def is_told(self) -> bool:
        """Does the debugger interrupt the command that `next` returned, or has it gone?"""
        self._take(0.0)
        if Signal.INTERRUPT in self._waiting:
            self._waiting.remove(Signal.INTERRUPT)
            return True
        return not self.is_open

    def next(self) -> bytes | None:
        """The data of the next packet; None if the debugger has gone.

        An interrupt before it came too late for the command that it meant: it is dropped.
        """
        while True:
            while not self._waiting and self.is_open:
                self._take(None)
            data = self._waiting.popleft() if self._waiting else None
            if not isinstance(data, Signal):
                return data

    def send(self, data: bytes) -> None:
        """Send a packet, after the text before it."""
        self._flush()
        self._last = packet(data)
        self._write(self._last)

    def show(self, text: str) -> None:
        """Let the debugger show text to the person, line by line."""
        self._text += text
        if "\n" in text or len(self._text) > LARGEST // 4:
            self._flush()

    def _flush(self) -> None:
        data, self._text = self._text.encode(), ""
        for start in range(0, len(data), LARGEST // 4):
            self._write(packet(b"O" + data[start : start + LARGEST // 4].hex().encode()))

    def _take(self, timeout: float | None) -> None:
        """Read what has come, waiting at most `timeout` seconds."""
        ready, _, _ = select.select([self.source, *self.others], [], [], timeout)
        if self.source in ready:
            try:
                data = os.read(self.source, CHUNK)
            except OSError:
                data = b""
            self.is_open = bool(data)
            for found in self._framer.feed(data):
                self._note(found)
        if self.is_open and any(other in ready for other in self.others):
            self.on_other()

    def _note(self, found: bytes | Signal) -> None:
        if found == Signal.REPEAT:
            self._write(self._last)
        elif found == Signal.INTERRUPT:
            if Signal.INTERRUPT not in self._waiting:
                self._waiting.append(found)
        elif isinstance(found, bytes):
            self._write(b"+" * self.acknowledges)
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(found)
        else:
            self._write(b"-" * self.acknowledges)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):
            while data and self.is_open:
                data = data[os.write(self.sink, data) :]
            return
        self.is_open = False

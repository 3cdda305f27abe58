"""The terminal: the guest's text made harmless, reports and progress on standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rich.status import Status  # imported with the first spinner

AT_ONCE = 10_000
"""Characters of a guest that are shown one by one: it costs as much as to simulate them."""

PAUSE = 0.05
"""Seconds after which further ones are shown."""

WIDTH = 100
"""Columns of a report where no terminal says how wide it is."""


def neutralised(text: str) -> str:
    r"""Text with everything that a terminal obeys shown as an escape: \x1b, \x0d, \u202e.

    Lines and tabs stay. Covers control and format characters, C1, bidirectional overrides,
    surrogates and what Unicode does not assign.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_harmless(char) else _escape(char) for char in text)


def one_line(text: str) -> str:
    """A name for one line: neutralised, and line ends and tabs shown as escapes as well."""
    return neutralised(text).replace("\n", r"\x0a").replace("\t", r"\x09")


def _is_harmless(char: str) -> bool:
    return char in "\n\t" or char.isprintable()


def _escape(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


class GuestConsole:
    """Standard output for the guest's text, as it comes; of much text, every PAUSE."""

    def __init__(self) -> None:
        self._last = "\n"
        self._count = 0
        self._flushed = 0.0

    def __call__(self, text: str) -> None:
        if text:
            self._last = text[-1]
            self._count += len(text)
            sys.stdout.write(neutralised(text))
            if self._count <= AT_ONCE or monotonic() >= self._flushed + PAUSE:
                sys.stdout.flush()
                self._flushed = monotonic()

    def close(self) -> None:
        """In a terminal, end the guest's last line, so that the report begins on its own."""
        if self._last != "\n" and sys.stdout.isatty():
            sys.stdout.write("\n")
        sys.stdout.flush()


def report_console() -> Console:
    """Standard error, for reports."""
    return _console(is_error=True)


def page_console() -> Console:
    """Standard output, for what a command was asked to show."""
    return _console(is_error=False)


def _console(is_error: bool) -> Console:
    """Return a console of plain text without markup, WIDTH columns wide unless a terminal says."""
    console = Console(stderr=is_error, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH
    return console


def print_whole(console: Console, table: Table) -> None:
    """Print a table of WIDTH columns; a narrower terminal breaks its lines, not its numbers."""
    width = console.width
    console.width = max(width, WIDTH)
    console.print(table)
    console.width = width


def spinner(console: Console, line: str) -> "AbstractContextManager[Status | None]":
    """A line beside a spinner, which can be updated, in a terminal; nothing elsewhere."""
    return console.status(line) if console.is_terminal else nullcontext()


@contextmanager
def progress(message: str) -> Iterator[Callable[[str], None]]:
    """Show that something long is going on: a spinner in a terminal, one line elsewhere.

    It gives what tells more beside the spinner: where it is at.
    """
    console = report_console()
    if not console.is_terminal:
        console.print(f"{message} ...", soft_wrap=True)
        yield lambda more: None
        return
    with console.status(f"{message} ...") as status:
        yield lambda more: status.update(f"{message}: {more} ...")


def compact_table(*columns: str, left: int = 1) -> Table:
    """A table of numbers: no frame, `left` columns of text, the others right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", no_wrap=True)
    return table


def short(number: int) -> str:
    """A count in at most five characters: 9999, 12.3k, 123k, 4.6M."""
    if number < 10_000:
        return str(number)
    value, units = float(number), iter("kMGTPE")
    while value >= 999.5:
        value, unit = value / 1000, next(units)
    return f"{value:.1f}{unit}" if value < 99.95 else f"{value:.0f}{unit}"

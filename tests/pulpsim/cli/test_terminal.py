"""What reaches the terminal."""

import io

import pytest

from pulpsim.cli import terminal as console
from pulpsim.cli.terminal import GuestConsole, neutralised, progress, report_console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_text_lines_and_tabs_stay_as_they_are() -> None:
    text = "Hello\tfrom 8 cores\ncycles: 12 µs, ¼, 日本\n"
    assert neutralised(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("50 %\r100 %\b", r"50 %\x0d100 %\x08"),
        ("\x00\x7f\x9b31m\xa0", r"\x00\x7f\x9b31m\xa0"),
        ("a\u202eb\u2028\ufeff", r"a\u202eb\u2028\ufeff"),
        ("\ud800\U000e0001", r"\ud800\U000e0001"),
    ],
)
def test_what_a_terminal_obeys_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert neutralised(text) == shown


def test_every_ascii_control_character_but_newline_and_tab_is_escaped() -> None:
    for code in [*range(32), 127]:
        char = chr(code)
        assert (neutralised(char) == char) == (char in "\n\t")


def test_the_guests_text_appears_as_it_comes(capsys: pytest.CaptureFixture) -> None:
    guest = GuestConsole()
    guest("Hel")
    assert capsys.readouterr().out == "Hel"
    guest("lo\x1b")
    guest("")
    guest.close()
    assert capsys.readouterr().out == "lo\\x1b"


@pytest.mark.parametrize(("text", "end"), [("Hello", "\n"), ("Hello\n", ""), ("", "")])
def test_a_terminal_gets_the_end_of_an_unfinished_line(
    monkeypatch: pytest.MonkeyPatch, text: str, end: str
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(console.sys, "stdout", terminal)
    guest = GuestConsole()
    guest(text)
    guest.close()
    assert terminal.getvalue() == text + end


def test_progress_is_one_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture) -> None:
    with progress("compiling the interpreter"):
        assert capsys.readouterr() == ("", "compiling the interpreter ...\n")
    assert capsys.readouterr() == ("", "")


def test_progress_in_a_terminal_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(console.sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("compiling the interpreter"):
        pass
    assert "compiling the interpreter ..." in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")


def test_a_report_elsewhere_than_in_a_terminal_is_100_columns_wide() -> None:
    assert report_console().width == 100


def test_much_text_is_shown_piece_by_piece_and_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(Terminal):
        flushes = 0

        def flush(self) -> None:
            self.flushes += 1

    stream = Stream()
    monkeypatch.setattr(console.sys, "stdout", stream)
    monkeypatch.setattr(console, "monotonic", lambda: 1.0)
    guest = GuestConsole()
    for _ in range(30_000):
        guest("x")
    assert stream.flushes == console.AT_ONCE
    guest.close()
    assert stream.getvalue() == "x" * 30_000 + "\n"
    assert stream.flushes == console.AT_ONCE + 1

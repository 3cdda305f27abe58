"""The live view on a terminal: keys, Ctrl-C, signals; and where there is no terminal."""

import importlib.util
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from pulpsim.commands import app as cli
from pulpsim.tui import command
from soc.run import run_program
from soc.trace.recorder import Recording

ROOT = Path(__file__).parents[3]
ENDLESS = "_start:\nli t0, 5\nagain: addi t0, t0, 1\nj again\n"
ALTERNATE, NORMAL = b"\x1b[?1049h", b"\x1b[?1049l"
LONG = 120.0


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("live") / "endless.elf"
    program = assemble(ENDLESS, profile("ri5cy", "x"), text_base=0x1C010000)
    file.write_bytes(program.to_elf())
    return file


class Terminal:
    """A process on a terminal of its own, and what it has drawn."""

    def __init__(self, arguments: list[str], lines: int = 30, columns: int = 100):
        pytest.importorskip("textual")
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (lines, columns))
        self.before = termios.tcgetattr(self.slave)
        self.drawn, self.waited_for = b"", 0
        size = {"COLUMNS", "LINES"}  # which pytest's workers set, and which would come first
        environment = {name: value for name, value in os.environ.items() if name not in size}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pulpsim", *arguments],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=ROOT,
            env={**environment, "TERM": "xterm-256color"},
            start_new_session=True,
        )

    def wait_for(self, text: bytes) -> None:
        """Until a text is drawn, after the one that was waited for before."""
        late = time.monotonic() + LONG
        while (place := self.drawn.find(text, self.waited_for)) < 0:
            assert time.monotonic() < late, self.drawn[-2000:]
            if select.select([self.master], [], [], 0.2)[0]:
                self.drawn += os.read(self.master, 1 << 16)
        self.waited_for = place + len(text)

    def send(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def end(self) -> int:
        """The exit status, once everything is read; the terminal must be as before."""
        late = time.monotonic() + LONG
        while self.process.poll() is None:
            assert time.monotonic() < late, self.drawn[-2000:]
            if select.select([self.master], [], [], 0.1)[0]:
                self.drawn += os.read(self.master, 1 << 16)
        while select.select([self.master], [], [], 0)[0]:
            self.drawn += os.read(self.master, 1 << 16)
        after = termios.tcgetattr(self.slave)
        assert after == self.before
        os.close(self.slave)
        os.close(self.master)
        return self.process.wait()


def test_keys_move_the_clock_and_leave_with_a_report(endless: Path) -> None:
    terminal = Terminal(["run", "--elf", str(endless), "--max-cycles", "3000", "--tui"])
    terminal.wait_for(ALTERNATE)
    terminal.wait_for(b"cycle limit of 3000 reached")
    terminal.send(b"\x1b[D")
    terminal.wait_for(b"2,999")
    terminal.send(b"g")
    terminal.wait_for(b"go to cycle")
    terminal.send(b"123\r")
    terminal.wait_for(b"123")
    terminal.send(b"b")
    terminal.wait_for(b"breakpoint at")
    terminal.send(b"again\r")
    terminal.wait_for(b"Stops 1")
    terminal.send(b" ")
    terminal.wait_for(b"breakpoint: fc at again")
    terminal.send(b"q")
    assert terminal.end() == 130
    _, _, report = terminal.drawn.partition(NORMAL)
    assert b"endless.elf on pulp, compiled engine: " in report
    assert b"interrupted in cycle " in report


@pytest.mark.parametrize("how", ["ctrl-c", "signal"])
def test_what_runs_on_is_left_with_a_report_and_a_sane_terminal(endless: Path, how: str) -> None:
    terminal = Terminal(["run", "--elf", str(endless), "--tui"])
    terminal.wait_for(b"running")
    if how == "ctrl-c":
        terminal.send(b"\x03")
    else:
        terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == 130
    _, _, report = terminal.drawn.partition(NORMAL)
    assert b"interrupted in cycle" in report


def test_without_textual_it_says_how_to_get_it(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sought = importlib.util.find_spec
    there_is = lambda name, *more: None if "textual" in name else sought(name, *more)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", there_is)
    monkeypatch.setattr(command, "find_spec", there_is)
    monkeypatch.setattr(command, "has_terminal", lambda: True)
    file = tmp_path / "run.trace"
    run_program(endless, max_cycles=300, trace=Recording(file))
    for arguments in (
        ["run", "--elf", str(endless), "--tui"],
        ["run", "--elf", str(endless), "--web"],
        ["trace", str(file), "--tui"],
        ["trace", str(file), "--web"],
    ):
        result = CliRunner().invoke(cli.app, arguments)
        assert result.exit_code == 2
        assert result.stderr == "pulpsim: --tui needs Textual: pip install 'pulpsim[tui]'\n"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "ELF", "--max-cycles", "300"]])
def test_textual_is_imported_only_where_it_is_needed(arguments: list[str], endless: Path) -> None:
    named = [str(endless) if word == "ELF" else word for word in arguments]
    listing = "import sys; print(*(m for m in sys.modules if m.startswith('textual')))"
    code = f"import atexit; atexit.register(lambda: exec({listing!r}))\n"
    code += "from pulpsim.__main__ import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code, *named], cwd=ROOT, capture_output=True, text=True
    )
    assert run.stdout.splitlines()[-1] == ""


def test_a_pipe_gets_the_table(endless: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pulpsim", "run", "--elf", endless, "--max-cycles", "500", "--tui"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert run.returncode == 3
    assert run.stdout == ""
    first, *rest = run.stderr.splitlines()
    assert first == "pulpsim: --tui needs a terminal; this is the report alone"
    assert "cycle limit of 500 reached" in rest


def test_a_recording_is_watched_too(endless: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    run_program(endless, max_cycles=3000, trace=Recording(file))
    terminal = Terminal(["trace", str(file), "--tui"])
    terminal.wait_for(ALTERNATE)
    terminal.wait_for(b"3,000")
    terminal.send(b"\x1b[D")
    terminal.wait_for(b"2,999")
    terminal.send(b"q")
    assert terminal.end() == 0


def test_without_a_terminal_recordings_are_not_watched(tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    arguments = [sys.executable, "-m", "pulpsim", "trace", "show", file, "--tui"]
    run = subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert run.returncode == 2
    assert run.stderr == (
        f"pulpsim: {file}: --tui needs a terminal; `pulpsim trace show` without it does not\n"
    )


def test_a_view_of_a_part_of_a_recording_is_refused(tmp_path: Path) -> None:
    arguments = ["trace", str(tmp_path / "run.trace"), "--tui", "--hart", "3", "--cycle", "1-2"]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 2
    message = "--hart, --cycle: --tui shows the whole recording; leave out one or the other"
    assert result.stderr == f"pulpsim: {message}\n"


@pytest.mark.parametrize("option", ["--trace", "--issue-trace"])
def test_what_is_watched_is_not_recorded(
    option: str, endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "has_terminal", lambda: True)
    arguments = ["run", "--elf", str(endless), "--tui", option, str(tmp_path / "run.trace")]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 2
    assert result.stderr == (
        f"pulpsim: --tui: goes back and forth, which {option} cannot; leave one out\n"
    )

"""GDB by its machine interface (manual, chapter 27): commands as tokens, answers as data."""

import json
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select

PATIENCE = 120.0
"""Seconds without a word from GDB, on a busy machine, that mean it hangs."""
SERVER = f"{sys.executable} -m pulpsim gdb --stdio"
WORD = re.compile(r'([\w-]+)=|"((?:[^"\\]|\\.)*)"|([{}\[\],])')


def parsed(text: str) -> dict:
    """The results of a record, NAME=VALUE,..., as JSON would have them."""
    parts = []
    for name, string, mark in WORD.findall(text):
        if name:
            parts.append((name, None))
        else:
            parts.append((None, mark or json.loads(f'"{string}"', strict=False)))
            if mark:
                parts[-1] = (mark, mark)
    place = 0

    def value():
        nonlocal place
        kind, what = parts[place]
        place += 1
        if kind not in ("{", "["):
            return what
        end = "}" if kind == "{" else "]"
        found = results(end)
        place += 1
        return found if kind == "{" else [each for values in found.values() for each in values]

    def results(end):
        nonlocal place
        found: dict = {}
        while place < len(parts) and parts[place][0] != end:
            name, what = parts[place]
            if name == ",":
                place += 1
            elif what is None:
                place += 1
                found.setdefault(name, []).append(value())
            else:
                found.setdefault("", []).append(value())
        if end == "]":
            return found
        return {name: values[0] if len(values) == 1 else values for name, values in found.items()}

    return results(None)


class Gdb:
    """One GDB, with a program under pulpsim."""

    def __init__(self, process: subprocess.Popen):
        self.process, self.token = process, 0
        self._whole: deque[bytes] = deque()
        self._rest = b""
        self.console: list[str] = []
        self.stops: list[dict] = []

    def _line(self) -> str:
        """The next line; those read with it stay for the next calls."""
        while not self._whole:
            assert select([self.process.stdout], [], [], PATIENCE)[0], "GDB is silent"
            data = self.process.stdout.read1(1 << 16)
            assert data, "GDB has ended"
            *whole, self._rest = (self._rest + data).split(b"\n")
            self._whole.extend(whole)
        return self._whole.popleft().decode("utf-8", "replace")

    def _until(self, beginning: str) -> str:
        while True:
            line = self._line()
            if line[:1] in "~@":
                self.console.append(json.loads(line[1:], strict=False))
            elif line.startswith("*stopped"):
                self.stops.append(parsed(line.partition(",")[2]))
            if line.startswith(beginning):
                return line

    def do(self, command: str) -> dict:
        """The results of a command."""
        self.token += 1
        self.process.stdin.write(f"{self.token}{command}\n".encode())
        self.process.stdin.flush()
        line = self._until(f"{self.token}^")
        assert "^error" not in line, (command, line)
        return parsed(line.partition(",")[2])

    def go(self, command: str) -> dict:
        """Why the harts have stopped after a command that lets them move."""
        count = len(self.stops)
        self.do(command)
        while len(self.stops) == count:
            self._until("*stopped")
        return self.stops[-1]

    def say(self, command: str) -> str:
        """What a command of the command line prints."""
        self.console.clear()
        self.do(f"-interpreter-exec console {json.dumps(command)}")
        return "".join(self.console)

    def value(self, expression: str) -> str:
        return self.do(f"-data-evaluate-expression {json.dumps(expression)}")["value"]

    def cycle(self) -> int:
        found = re.search(r"cycle (\d+)", self.say("monitor cycle"))
        assert found
        return int(found[1])

    def frames(self) -> list[str]:
        return [frame["func"] for frame in self.do("-stack-list-frames")["stack"]]


@contextmanager
def debugged(elf: Path, *options: str) -> Iterator[Gdb]:
    """A program under GDB, before its first instruction."""
    command = ["gdb-multiarch", "-nx", "-q", "--interpreter=mi3", str(elf)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        gdb = Gdb(process)
        try:
            gdb.do("-gdb-set confirm off")
            gdb.do("-gdb-set remotetimeout 200")
            gdb.do(f"-target-select remote | {SERVER} {' '.join(options)} {elf}")
            yield gdb
            gdb.process.stdin.write(b"-gdb-exit\n")
            gdb.process.stdin.flush()
            process.wait(PATIENCE)
        finally:
            process.kill()

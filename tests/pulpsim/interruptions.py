"""Commands that a signal ends at a random moment: python -m tests.pulpsim.interruptions

Each command runs undisturbed once, which tells how long it takes; then it is started again and
again, and gets a signal at a moment drawn from that time. After SIGINT and SIGTERM nothing may be
left of it: no process, no temporary file, no output that cannot be read. After SIGKILL the next run
must give the undisturbed answer, and remove what was left. --moments N of each signal, --seed.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from soc.trace.reader import Trace

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds for a process to end, and for those that it has started
MARK = "PULPSIM_TEST_MARK"
KILLED = -signal.SIGKILL
SAID = "interrupted"
LAYER = """
program.kernel = "linear_fw_f32"
program.args = {inputs = 96, outputs = 40, unroll = 1, rows = 1, cols = 1}
tune = {sizes = 2, policy = "exhaustive"}
"""
COMMANDS = {
    "run": "run {root}/examples/matmul.toml --trace {folder}/run.trace --json {folder}/run.json",
    "tune": "tune {folder}/layer.toml --database {folder}/points.sqlite --json {folder}/tune.json"
    " --workers 2",
    "study": "study stride --quick --database {folder}/study.sqlite --output {folder}/study",
    "report": "report {given}/given.trace -o {folder}/report.html",
    "fidelity": "fidelity --only alu --json {folder}/fidelity.json",
}
COMPILATION = "compilation"
"""A run whose cache is empty."""


@dataclass
class Started:
    """A command in a process, its folders, and what it says."""

    name: str
    folder: Path
    given: Path
    cache: Path | None = None
    mark: str = field(default_factory=lambda: uuid4().hex)

    def __post_init__(self) -> None:
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)
        (self.folder / "layer.toml").write_text(LAYER)
        command = COMMANDS["run" if self.name == COMPILATION else self.name]
        words = command.format(root=ROOT, folder=self.folder, given=self.given).split()
        cache = {"PULPSIM_CACHE": str(self.cache)} if self.cache else {}
        environment = {"PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary), MARK: self.mark}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pulpsim", *words],
            env=os.environ | environment | cache,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def end(self, number: signal.Signals | None = None) -> str:
        """Send a signal, if one is given, and wait for the end; returns what it said."""
        if number:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)
        output, _ = self.process.communicate(timeout=PATIENCE)
        return output.replace(str(self.folder), "FOLDER")

    def left(self) -> list[str]:
        """Processes and temporary files that are still there a moment after its end."""
        until = time.monotonic() + PATIENCE
        while processes := list(marked(self.mark)):
            if time.monotonic() > until:
                break
            time.sleep(0.05)
        files = [path.name for path in self.folder.rglob("*") if is_partial(path, self.temporary)]
        return processes + files


def is_partial(path: Path, temporary: Path) -> bool:
    """Is it a temporary file, or one that was not written to its end?"""
    return temporary in path.parents or ".pulpsim-part-" in path.name


def marked(mark: str) -> Iterator[str]:
    """The command lines of processes whose environment has a mark."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                yield (process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def answer(output: str) -> str:
    """What a command says, without what differs from run to run: times, rates, progress.

    Nor does it say how much was simulated now: what a killed run has written is used again.
    """
    kept = [line for line in output.splitlines() if "compiling" not in line and "\r" not in line]
    return re.sub(r"\d[\d.,]*( MIPS| s\b|/s| ms| simulated now)", "", "\n".join(kept))


def is_of_python(output: str) -> bool:
    """Is it a traceback of Python's own start, in which nothing of ours runs yet?"""
    return "Traceback" in output and SAID not in output and str(ROOT) not in output


def check_ended(command: Started, number: signal.Signals, output: str) -> list[str]:
    """What is wrong after SIGINT or SIGTERM; it may have ended before by itself."""
    code = command.process.returncode
    is_early = code == -number and not output or is_of_python(output)
    wrong = [f"a traceback:\n{output}"] if "Traceback" in output and not is_early else []
    if code not in (0, 128 + number) and not is_early:
        wrong.append(f"exit status {code}:\n{output}")
    if code and not is_early and sum(SAID in line for line in output.splitlines()) != 1:
        wrong.append(f"not one sentence:\n{output}")
    if left := command.left():
        wrong.append(f"left: {left}")
    return wrong + unreadable(command.folder)


def unreadable(folder: Path) -> list[str]:
    """Recordings that are there and cannot be read."""
    wrong = []
    for file in folder.glob("*.trace"):
        try:
            Trace.open(file)
        except (OSError, ValueError) as error:
            wrong.append(f"{file.name}: {error}")
    return wrong


class Sweep:
    """The moments of one command."""

    def __init__(self, name: str, folder: Path, given: Path, rng: random.Random) -> None:
        self.name, self.given, self.rng = name, given, rng
        self.folder, self.number = folder / name, 0
        started = time.monotonic()
        self.undisturbed = answer(self.start().end())
        self.duration = time.monotonic() - started

    def start(self, cache: Path | None = None, folder: Path | None = None) -> Started:
        """Start the command in a new folder; compilation, with a new cache."""
        self.number += 1
        folder = folder or self.folder / str(self.number)
        if self.name == COMPILATION and cache is None:
            cache = folder / "cache"
        return Started(self.name, folder, self.given, cache)

    def signalled(self, number: signal.Signals) -> tuple[str, list[str]]:
        """Send a signal at a random moment; returns how it ended, and what is wrong."""
        command = self.start()
        time.sleep(self.rng.uniform(0, self.duration))
        output = command.end(number)
        if number != signal.SIGKILL:
            return f"exit {command.process.returncode}", check_ended(command, number, output)
        again = self.start(command.cache, command.folder)
        output = answer(again.end())
        wrong = [] if output == self.undisturbed else [f"another answer after SIGKILL:\n{output}"]
        if left := [*again.left(), *marked(command.mark)]:
            wrong.append(f"left after the next run: {left}")
        ended = "killed" if command.process.returncode == KILLED else "over before"
        return ended, wrong + unreadable(command.folder)


def record_given(folder: Path) -> Path:
    """A recording for `report`; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = Started("run", folder / "run", folder)
    command.end()
    (folder / "run" / "run.trace").rename(folder / "given.trace")
    return folder


def main() -> int:
    """Carry out the sweep; returns 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*", choices=[*COMMANDS, COMPILATION, []])
    parser.add_argument("--moments", type=int, default=100, help="of each signal")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="interruptions-") as scratch:
        given = record_given(Path(scratch) / "given")
        for name in options.commands or [*COMMANDS, COMPILATION]:
            sweep = Sweep(name, Path(scratch), given, random.Random(options.seed))
            print(f"{name}: {sweep.duration:.1f} s undisturbed", flush=True)
            for number in signal.SIGINT, signal.SIGTERM, signal.SIGKILL:
                ends: Counter[str] = Counter()
                for _ in range(options.moments):
                    how, wrong = sweep.signalled(number)
                    ends[how] += 1
                    failures += bool(wrong)
                    for what in wrong:
                        print(f"  {number.name}: {what}", flush=True)
                print(f"  {number.name}: {dict(ends)}", flush=True)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

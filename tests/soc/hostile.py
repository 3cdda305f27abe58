"""Runs hostile programs on chips between guard pages: python -m tests.soc.hostile --programs 20000

Each program runs on both engines, and on the compiled one with everything translated early. It
must end with one of the documented reasons, by no signal and with no exception of Python's, and all
three must leave the same. Programs run in worker processes: one that dies, or says nothing for a
minute, fails the program that it was at, and another one goes on after it.
"""

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import islice
from math import inf
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import llvmlite.binding as llvm
import numpy as np

from isa.extensions.profiles import profile
from soc.aot.unit import require
from soc.engine.interpreter import base_extensions, interpreter, parts, steps_of_superblocks
from soc.jit import compile_worker
from soc.jit.code_cache import INTERPRET_ALL, CodeCache, Policy
from soc.jit.profile_store import ProfileStore
from soc.result import RunResult
from soc.run import run_program
from soc.trace.reader import Trace
from soc.trace.recorder import Recording
from tests.soc.engine.test_engines import End, difference
from tests.soc.guard_pages import guard_pages
from tests.soc.hostile_programs import CHIPS, Attack, attack

REASONS = {"exit", "trap", "deadlock", "max_cycles"}
CHUNK = 200
"""Programs of one worker: what is translated stays in its memory."""
SILENCE = 300.0
"""Seconds after which a worker is taken for stuck."""

WAYS = "compiled", "translated", "event"


class TranslatingHere(CodeCache):
    """Translates what was done a few times at once, in this process; knows of no program.

    most    superblocks left to translate, the hottest first; the rest of the program is interpreted
    """

    def __init__(self, folder: Path, most: float):
        super().__init__(folder, Policy(8, 8, poll_interval=0, waits=True), ProfileStore(files=0))
        self.most = most

    def is_translating(self) -> bool:
        """Seem busy once there are enough: then no more is asked for."""
        return self.most <= 0

    def translate(self, steps: str, texts: Mapping[str, str]) -> None:
        """What soc.jit.compile_worker does in a process of its own."""
        hottest = dict(islice(texts.items(), int(min(self.most, len(texts)))))
        self.most -= len(hottest)
        llvm_options()
        compile_worker.build({"unit": steps, "superblocks": hottest})
        self.loaded.look_again()


@cache
def llvm_options() -> None:
    for option, value in compile_worker.OPTIONS.items():
        llvm.set_option("", f"-{option}={value}")


def left(attack: Attack, way: str, folder: Path, most: float) -> tuple[End, dict]:
    """What a program leaves on one of the ways, and what is to be compared besides."""
    engine = "event" if way == "event" else "compiled"
    file = folder / f"{os.getpid()}-{way}.trace"
    recording = Recording(file) if attack.records else None
    is_translated = way == "translated"
    cache = TranslatingHere(folder, most) if is_translated else CodeCache(policy=INTERPRET_ALL)
    with guard_pages(attack.at_end):
        result = run_program(
            attack.program,
            attack.spec,
            engine=engine,
            max_cycles=attack.limit,
            trace=recording,
            code_cache=cache,
        )
    if result.exit.reason not in REASONS:
        raise ValueError(f"exit {result.exit}")
    return End.of(result), more(result) | ({"events": events(file)} if recording else {})


def more(result: RunResult) -> dict:
    """What a run leaves besides its report, registers and memories."""
    chip = result.chip
    names = ("mepc", "mcause", "mtvec", "mie", "mip", "mscratch", "counts", "state", "exited")
    return {
        "harts": {name: chip.harts[name].tolist() for name in names},
        "banks": {name: chip.banks[name].tolist() for name in ("accesses", "conflicts")},
        "unit": {
            name: chip.event_unit[name].tolist()
            for name in ("mask", "buffer", "interrupt_mask", "status", "owner", "queue", "message")
        },
        "dma": {name: chip.dma[name].tolist() for name in ("allocated", "running", "accesses")},
    }


def events(file: Path) -> list:
    """The events of a trace, sorted: within a cycle they come in any order."""
    return np.sort(Trace.open(file).events).tolist()


def verdict(seed: int, folder: Path, most: float = inf) -> str:
    """What goes wrong with the program of a seed; "" if nothing does.

    most    superblocks that are translated
    """
    mine = attack(seed)
    first = left(mine, WAYS[0], folder, most)
    for way in WAYS[1:]:
        other = left(mine, way, folder, most)
        found = difference(vars(first[0]) | {"more": first[1]}, vars(other[0]) | {"more": other[1]})
        if found:
            return f"{WAYS[0]}, {way} differ: {found}"
    return ""


def work(first: int, end: int, folder: Path) -> None:
    """A worker: says what it has found, seed by seed."""
    faulthandler.enable()
    for seed in range(first, end):
        try:
            found = verdict(seed, folder)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        print(json.dumps({"seed": seed, "found": found}), flush=True)


def start(first: int, end: int, folder: Path) -> subprocess.Popen:
    """Start a worker for seeds first .. end - 1."""
    numbers = f"{first},{end}"
    return subprocess.Popen(
        [sys.executable, "-m", "tests.soc.hostile", "--worker", numbers, "--folder", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )


class Watch:
    """Follows a worker: where it is, what it has found, whether it still says something.

    seed        of the program that it is at
    failures    by seed, filled as they come
    """

    def __init__(self, first: int, end: int, folder: Path, failures: dict[int, str]):
        self.first, self.end, self.folder, self.failures = first, end, folder, failures
        self.begin(first)

    def begin(self, seed: int) -> None:
        self.seed, self.heard = seed, monotonic()
        self.process = start(seed, self.end, self.folder)
        self.listener = Thread(target=self.listen, args=(self.process,))
        self.listener.start()

    def listen(self, process: subprocess.Popen) -> None:
        """Take up what a worker says, as long as it lives."""
        assert process.stdout
        for line in process.stdout:
            said = json.loads(line)
            self.heard = monotonic()
            if said["found"]:
                self.note(said["seed"], said["found"])
            self.seed = said["seed"] + 1

    def note(self, seed: int, found: str) -> None:
        """Keep what is wrong with the program of a seed, and say it."""
        self.failures[seed] = found
        print(f"\nseed {seed} ({CHIPS[seed % len(CHIPS)]}): {found}", flush=True)

    @property
    def done(self) -> int:
        return self.seed - self.first

    def goes_on(self) -> bool:
        """Is there more to do? After a program that a worker did not survive, with another one."""
        if monotonic() - self.heard > SILENCE:
            self.process.kill()
        if self.process.poll() is None:
            return True
        self.listener.join()
        if self.seed < self.end:
            self.note(self.seed, f"the worker ended with status {self.process.returncode}")
            self.seed += 1
        if self.seed < self.end:
            self.begin(self.seed)
        return self.seed < self.end


def prepare() -> None:
    """Have all that is compiled once, before anyone waits for a worker's next word."""
    for core, registers in (("ri5cy", "x"), ("cv32e40p", "f")):
        isa = profile(core, registers)
        extensions = base_extensions(isa)
        parts(isa, extensions, show)
        for records in (False, True):
            require(
                (steps_of_superblocks(interpreter(isa, extensions, show, records=records)),), show
            )


@contextmanager
def show(text: str) -> Iterator[None]:
    """Say what takes long."""
    print(text, file=sys.stderr, flush=True)
    yield


def run_all(first: int, programs: int, jobs: int, folder: Path) -> dict[int, str]:
    """Failures by seed; shows progress."""
    failures: dict[int, str] = {}
    chunks = [
        (seed, min(seed + CHUNK, first + programs))
        for seed in range(first, first + programs, CHUNK)
    ]
    finished, started = 0, monotonic()
    running: list[Watch] = []
    while chunks or running:
        while chunks and len(running) < jobs:
            running.append(Watch(*chunks.pop(0), folder, failures))
        sleep(1)
        for watch in [watch for watch in running if not watch.goes_on()]:
            finished += watch.done
            running.remove(watch)
        done = finished + sum(watch.done for watch in running)
        text = f"{done} of {programs} programs, {len(failures)} failed, "
        print(f"\r{text}{monotonic() - started:.0f} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soc.hostile", description=__doc__)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, help="keep there what is translated, for more runs")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        first, end = map(int, options.worker.split(","))
        work(first, end, options.folder)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        prepare()
        failures = run_all(options.first, options.programs, options.jobs, folder)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""What single things cost: a cycle of the DMA, a miss of the instruction cache, a translation."""

import resource
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from benchmarks.clocks import simulate
from benchmarks.figure import Figure
from benchmarks.flatness import warm_up
from benchmarks.layers import LAYERS
from benchmarks.workload import chip
from firmware.drivers import Dma
from firmware.registers import ZERO
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.jit.code_cache import CodeCache, Policy
from soc.jit.profile_store import ProfileStore
from soc.result import RunResult
from trainlib.launch import program as kernel_program

COPY, COPIES = 32768, 200  # bytes, each way
LONG, SHORT, INSTRUCTIONS = 700, 70, 700_000
"""Instructions of loops that a core's own cache does not hold, and does; of a core in all."""
LOAD_EVERY = 4  # instructions
DMA_CYCLE, MISS = 12.0, 150.0  # ns
KERNEL, STEPS = "lstm_fw_f32", 12
"""Whose superblocks are translated, and how many steps of it are run to have them."""
SOON = Policy(poll_threshold=64, compile_threshold=512, poll_interval=0, waits=True)
SUPERBLOCKS = 32  # of a process that translates
TRANSLATION = 90.0  # ms


def copies() -> Program:
    """A core that copies from L2 to L1 and back, and sleeps meanwhile."""
    spec = chip()
    k = new_kernel(spec, "copies")
    l1, l2 = k.buffer(k.l1, "A", COPY), k.buffer(k.l2, "B", COPY)
    with team_of(k, spec, spec.cores) as team, team.only(0):
        dma, left, counter = Dma(k), k.x(), k.x()
        k.li(left, COPIES)
        again = k.here()
        for copy in (dma.to_l1, dma.to_l2):
            dma.begin(counter)
            copy(l1, l2, COPY)
            dma.wait(counter)
        k.addi(left, left, -1)
        k.bne(left, ZERO, again)
    return k.build()


def straight(length: int) -> Program:
    """All cores repeat so many instructions, loads among them."""
    spec = chip()
    k = new_kernel(spec, "straight")
    words = k.buffer(k.l1, "A", 64)
    with team_of(k, spec, spec.cores):
        left, base, word = k.x(3)
        k.li(base, words)
        k.li(left, INSTRUCTIONS // length)
        again = k.here()
        for number in range(length):
            if number % LOAD_EVERY == 0:
                k.lw(word, number % 64, base)
            else:
                k.xori(word, left, 1)
        k.addi(left, left, -1)
        k.bne(left, ZERO, again)
    return k.build()


def parts(rounds: int) -> Iterator[Figure]:
    """Processor time of each."""
    programs = {"copies": copies(), "long": straight(LONG), "short": straight(SHORT)}
    for name in ("long", "short"):
        warm_up(partial(simulate, programs[name]))
    runs = [{name: simulate(program) for name, program in programs.items()} for _ in range(rounds)]
    yield Figure(
        "a cycle in which the DMA alone moves data",
        median(run["copies"].processor_seconds / run["copies"].cycles * 1e9 for run in runs),
        "ns",
        most=DMA_CYCLE,
    )
    yield Figure(
        "a miss of a core's instruction cache",
        median(_miss(run["long"], run["short"]) for run in runs),
        "ns",
        most=MISS,
    )
    yield translation(rounds)


def _miss(long: RunResult, short: RunResult) -> float:
    """Nanoseconds more for each miss that a run has more; it has as many instructions."""
    misses = [int(run.chip.fetch["misses"].sum()) for run in (long, short)]
    more = long.processor_seconds - short.processor_seconds
    return more / (misses[0] - misses[1]) * 1e9


class Texts(CodeCache):
    """Keeps what is to be translated, up to so many superblocks."""

    def __init__(self, folder: Path, most: int):
        super().__init__(folder, SOON, ProfileStore(files=0))
        self.steps, self.most = "", most
        self.superblocks: dict[str, str] = {}

    def translate(self, steps: str, texts: Mapping[str, str]) -> None:
        self.steps = steps
        self.superblocks = dict(islice({**self.superblocks, **texts}.items(), self.most))


def translation(rounds: int) -> Figure:
    """A superblock of a process that translates many, its start included."""
    program = kernel_program(KERNEL, LAYERS[KERNEL] | {"steps": STEPS}, "pulp").program
    with tempfile.TemporaryDirectory() as folder:
        texts = Texts(Path(folder), SUPERBLOCKS)
        simulate(program, code_cache=texts)
    _translating(texts)  # the step functions are compiled, if they are not there
    cost = median(_translating(texts) for _ in range(rounds))
    each = cost / len(texts.superblocks) * 1e3
    return Figure("translating a superblock", each, "ms", most=TRANSLATION)


def _translating(texts: Texts) -> float:
    """Seconds of processor time of a process that translates all of them."""
    with tempfile.TemporaryDirectory() as folder:
        files = {f"{folder}/{Path(name).name}": text for name, text in texts.superblocks.items()}
        before = _of_children()
        CodeCache(Path(folder), SOON).translate(texts.steps, files)
        return _of_children() - before


def _of_children() -> float:
    """Seconds of processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

"""Reading a long trace: its export to other formats, its sums, and how soon it begins to show."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from benchmarks.figure import Figure
from benchmarks.workload import chip, products
from pulpsim.trace import show
from pulpsim.trace.annotate import Annotation
from pulpsim.trace.export import formats
from pulpsim.trace.selection import Selection
from pulpsim.tui.trace_source import TraceSource
from soc.run import run_program
from soc.trace.reader import Trace
from soc.trace.recorder import Recording
from soc.trace.writer import TraceWriter

EVENTS, FEWER = 10_000_000, 1_000_000
REPETITIONS = 100  # of the products that are recorded
FAST = "perfetto", "parquet", "vcd"
SLOW = "csv", "spike", "callgrind", "speedscope", "konata"
LEAST_RATE = 1.0  # millions of events per second
MOST_WAIT = 0.5  # s
MOST_OPENING = 0.5  # s
EVERYTHING = Selection()


def export(rounds: int, is_long: bool) -> Iterator[Figure]:
    """Millions of events per second of processor time; with is_long of formats of text, too."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        trace = long_trace(place, EVENTS)
        yield from rates(rounds, trace, FAST, place / "out", LEAST_RATE)
        seconds = _middle(rounds, Annotation, trace)
        yield Figure("annotate", trace.events.size / 1e6 / seconds, "M events/s")
        first_line = _middle(rounds, lambda: next(show.lines(trace, EVERYTHING.parts(trace))))
        yield Figure("trace show, first line", first_line, "s", most=MOST_WAIT)
        shown = _middle(rounds, TraceSource.open, trace.path)
        yield Figure("trace --tui, opening it", shown, "s", most=MOST_OPENING)
        if is_long:
            yield from rates(rounds, long_trace(place, FEWER), SLOW, place / "out", None)


def rates(
    rounds: int, trace: Trace, names: Iterable[str], out: Path, least: float | None
) -> Iterator[Figure]:
    """Each format's events per second."""
    for name in names:
        seconds = _middle(rounds, formats.export, trace, name, EVERYTHING, out)
        rate = trace.events.size / 1e6 / seconds
        yield Figure(f"trace export --to {name}", rate, "M events/s", least=least)


def long_trace(folder: Path, events: int) -> Trace:
    """A trace of so many events: those of small products, one recording after the other."""
    spec = chip()
    run_program(products(spec, REPETITIONS), spec, trace=Recording(folder / "short.trace"))
    short = Trace.open(folder / "short.trace")
    writer = TraceWriter(folder / "long.trace", dict(short.header))
    more, count = np.array(short.events), 0
    length = int(more["cycle"].max()) + 1
    while count < events:
        writer.put(count, more[: events - count])
        count += more.size
        more["cycle"] += np.uint32(length)
    cycles = -(-events // more.size) * length
    writer.close(complete=True, cycles=cycles)
    return Trace.open(folder / "long.trace")


def _middle(rounds: int, work: Callable, *arguments: Any) -> float:
    """Seconds of processor time that it takes, the median."""
    times = []
    for _ in range(rounds):
        started = process_time()
        work(*arguments)
        times.append(process_time() - started)
    return median(times)

"""python -m benchmarks: print how fast simulator and kernels are, and whether that is enough."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    checks,
    command,
    corners,
    debugger,
    deploy,
    elf_readers,
    events,
    export,
    flatness,
    kernels,
    layers,
    many,
    network,
    parts,
    processes,
    shapes,
    speed,
    trace,
    tuned,
)
from benchmarks.figure import Figure, show

BUSY = 0.5
"""Processes at work beside the benchmarks, more or less, that leave wall time without meaning."""

Benchmark = Callable[[int, bool], Iterator[Figure]]


def _lengths(rounds: int, is_long: bool) -> Iterator[Figure]:
    longest = (flatness.LONGEST,) if is_long else ()
    return flatness.by_length(rounds, flatness.LENGTHS + longest)


def _memory(rounds: int, is_long: bool) -> Iterator[Figure]:
    longest = (command.LONGEST,) if is_long else ()
    return command.memory(command.LENGTHS + longest)


BENCHMARKS: dict[str, Benchmark] = {
    "speed": lambda rounds, _: speed.speed(rounds),
    "layers": lambda rounds, _: layers.layers(rounds),
    "processes": lambda rounds, _: processes.processes(rounds),
    "parts": lambda rounds, _: parts.parts(rounds),
    "lengths": _lengths,
    "chips": lambda rounds, _: flatness.by_chip(rounds),
    "asleep": lambda rounds, _: flatness.asleep(rounds),
    "startup": lambda rounds, _: command.start_up(rounds),
    "memory": _memory,
    "trace": lambda rounds, _: trace.traces(rounds),
    "checks": lambda rounds, _: checks.checks(rounds),
    "many": lambda rounds, _: many.many(rounds),
    "debugger": lambda rounds, _: debugger.debugger(rounds),
    "events": lambda rounds, _: events.event_engine(rounds),
    "export": lambda rounds, is_long: export.export(rounds, is_long),
    "elf": lambda rounds, _: elf_readers.elf_readers(rounds),
    "kernels": lambda *_: kernels.kernels(),
    "corners": lambda *_: corners.corners(),
    "shapes": lambda *_: shapes.shapes(),
    "tuned": lambda _, is_long: tuned.tuned(*(() if is_long else tuned.FEW)),
    "network": lambda *_: network.network(),
    "deploy": lambda _, is_long: deploy.networks(is_long),
    "first": lambda rounds, is_long: command.first_run() if is_long else iter(()),
}


def main() -> None:
    """Measure what the command line names, or else everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--rounds", type=int, default=5, help="runs for a median (default 5)")
    parser.add_argument(
        "--long", action="store_true", help="runs of 2 G instructions and the very first one, too"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    given = parser.parse_args()
    for name in given.names:
        if name not in BENCHMARKS:
            parser.error(f"{name}: no such benchmark; there are {', '.join(BENCHMARKS)}")
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"load average {load:.1f}: only figures of processor time will do", file=sys.stderr)
    figures: list[Figure] = []
    try:
        for name in given.names or BENCHMARKS:
            for figure in BENCHMARKS[name](given.rounds, given.long):
                figures.append(figure)
                print(f"{name}: {figure}", file=sys.stderr, flush=True)
    finally:  # what is measured is shown, whatever ends it
        show(figures)
        if given.json:
            rows = [figure.to_json() for figure in figures]
            given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

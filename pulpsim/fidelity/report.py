"""pulpsim fidelity: repeat what was measured on the RTL, print the table, summarise."""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.table import Table

from pulpsim.cli.executor import check_executor, cluster_of
from pulpsim.cli.output import STANDARD_OUTPUT, check_writable, write
from pulpsim.cli.terminal import compact_table, page_console, progress, report_console
from pulpsim.fidelity import controller, dma, icache, l2, programs
from pulpsim.fidelity.comparison import GROUPS, Comparison, Measurement
from soc.config.toml import ConfigError
from soc.worker_process import processors

SCHEMA = "pulpsim.fidelity/1"
EQUAL, DIFFERENT = 0, 1
SHORT = 20_000
"""Cycles up to which the event engine repeats a measurement."""
SHOWN = 20  # differences; the JSON has them all

Row = tuple[Measurement, Comparison]


@dataclass(frozen=True)
class Summary:
    """A group's rows in one."""

    group: str
    runs: int
    exact_runs: int
    regions: int
    exact: int
    cycles: int
    error: float


@dataclass(frozen=True)
class Where:
    """Where measurements are repeated: here, so many at a time, or on a Dask cluster.

    workers          None: as many as there are processors
    scheduler        of a cluster, "tcp://HOST:PORT"
    local_cluster    the workers of one that is started for them
    """

    workers: int | None = None
    scheduler: str | None = None
    local_cluster: int | None = None


def fidelity(
    only: Sequence[str],
    engine: str,
    file: Path | None,
    where: Where = Where(),
    boot_rom: Path | None = None,
) -> int:
    """Repeat the measurements that `only` chooses; returns the command's exit status.

    only        groups, and names or configurations with * and ?; all if empty
    file        for the whole result as JSON; STANDARD_OUTPUT: in place of the table
    boot_rom    the file of the boot ROM, which some programs of the controller need

    raises    ConfigError
    """
    if file and file != STANDARD_OUTPUT:
        check_writable("--json", file)
    if engine not in ("compiled", "event"):
        raise ConfigError([f"--engine {engine}: must be compiled or event"])
    rom = str(boot_rom.absolute()) if boot_rom else ""
    if boot_rom:
        controller.check_rom(str(boot_rom))
    chosen = [m for m in select(only, rom) if engine == "compiled" or _is_short(m)]
    if not chosen:
        raise ConfigError(
            [
                f"--only {' '.join(only)}: the event engine repeats none of these; it runs whole "
                f"programs under {SHORT:,} cycles"
            ]
        )
    check_executor("", "fidelity", where, where)
    threads = Threads(where.workers or processors())
    with threads, cluster_of(where, report_console()) as cluster:
        rows = list(_repeated(chosen, engine, cluster or threads))
    if file == STANDARD_OUTPUT:
        sys.stdout.write(_text(rows, engine))
    else:
        show(rows)
        if file:
            write("--json", file, _text(rows, engine).encode())
    return DIFFERENT if any(comparison.differences for _, comparison in rows) else EQUAL


def measurements(rom: str = "") -> Iterator[Measurement]:
    """All of them, by group; `rom` is the file of the boot ROM."""
    by_group = defaultdict(list)
    for source in (programs, dma, icache, l2):
        for measurement in source.measurements():
            by_group[measurement.group].append(measurement)
    by_group["controller"] = list(controller.measurements(rom))
    for group in GROUPS:
        yield from by_group[group]


def select(only: Sequence[str], rom: str = "") -> list[Measurement]:
    """The measurements of these groups, or with names or configurations of these patterns.

    raises    ConfigError for a pattern that matches none
    """
    everything = list(measurements(rom))
    for pattern in only:
        if not any(_matches(measurement, pattern) for measurement in everything):
            raise ConfigError(
                [
                    f"--only {pattern}: no such measurement; the groups are {', '.join(GROUPS)}; "
                    "a program by name, many as in 'mm_*'"
                ]
            )
    return [m for m in everything if not only or any(_matches(m, pattern) for pattern in only)]


def _matches(measurement: Measurement, pattern: str) -> bool:
    words = (measurement.group, measurement.name, measurement.configuration)
    return any(fnmatchcase(word, pattern) for word in words)


def _is_short(measurement: Measurement) -> bool:
    return "event" in measurement.engines and measurement.cycles < SHORT


class Threads(ThreadPoolExecutor):
    """Threads of this process; what has not begun when an error ends the context never does."""

    def __exit__(self, *error: Any) -> None:
        self.shutdown(wait=error[0] is None, cancel_futures=True)


def _repeated(chosen: Sequence[Measurement], engine: str, executor: Executor) -> Iterator[Row]:
    by_group = defaultdict(list)
    for measurement in chosen:
        future = executor.submit(_repeat, measurement.repeat, engine)
        by_group[measurement.group].append((measurement, future))
    for group, members in by_group.items():
        with progress(f"{group}: {len(members)} runs"):
            for measurement, future in members:
                try:
                    yield measurement, future.result()
                except RuntimeError as error:  # it ended the workers
                    raise ConfigError([f"{measurement.title}: {error}"]) from None


def _repeat(repeat: Callable[[str], Comparison], engine: str) -> Comparison:
    return repeat(engine)


def summaries(rows: Iterable[Row]) -> list[Summary]:
    """A line for each group."""
    by_group = defaultdict(list)
    for measurement, comparison in rows:
        by_group[measurement.group].append(comparison)
    return [
        Summary(
            group,
            len(members),
            sum(not comparison.differences for comparison in members),
            sum(len(comparison.parts) for comparison in members),
            sum(comparison.exact for comparison in members),
            sum(comparison.rtl_cycles for comparison in members),
            max(comparison.error for comparison in members),
        )
        for group, members in by_group.items()
    ]


def show(rows: Sequence[Row]) -> None:
    """Print the tables and what differs."""
    console = page_console()
    console.print(runs_table(rows))
    differences = [
        f"{measurement.title}: {text}"
        for measurement, comparison in rows
        for text in comparison.differences
    ]
    if differences:
        console.print()
        for text in differences[:SHOWN]:
            console.print(text, soft_wrap=True)
        if len(differences) > SHOWN:
            console.print(f"... {len(differences) - SHOWN} more: --json has all")
    console.print()
    console.print(summary_table(summaries(rows)))
    console.print()
    console.print(verdict(rows), soft_wrap=True)


def runs_table(rows: Sequence[Row]) -> Table:
    """Every run: cycles of both, waits at L1, regions that are equal, the worst error."""
    columns = ("run", "configuration", "RTL", "cycles", "diff", "L1 waits", "exact", "worst %")
    table = compact_table(*columns, left=2)
    table.columns[1].no_wrap = False
    table.columns[1].min_width = 20
    for measurement, result in rows:
        table.add_row(
            measurement.name,
            measurement.configuration,
            f"{result.rtl_cycles:,}",
            f"{result.cycles:,}",
            f"{result.cycles - result.rtl_cycles:+,}" if result.cycles != result.rtl_cycles else "",
            _waits(result),
            f"{result.exact:,}/{len(result.parts):,}",
            _percent(result.error),
        )
    return table


def _waits(result: Comparison) -> str:
    """Format lost arbitrations, with their difference from the RTL's."""
    if result.waits != result.rtl_waits:
        return f"{result.rtl_waits:,}{result.waits - result.rtl_waits:+,}"
    return f"{result.waits:,}" if result.waits else ""


def summary_table(groups: Sequence[Summary]) -> Table:
    """A line for each group, one for all."""
    table = compact_table(
        "group", "runs", "exact", "regions", "exact", "cycles", "worst %", "what", left=1
    )
    table.columns[-1].justify = "left"
    table.columns[-1].no_wrap = False
    for group in groups:
        table.add_row(
            group.group,
            f"{group.runs:,}",
            f"{group.exact_runs:,}",
            f"{group.regions:,}",
            f"{group.exact:,}",
            f"{group.cycles:,}",
            _percent(group.error),
            GROUPS[group.group],
        )
    return table


def verdict(rows: Sequence[Row]) -> str:
    """The result in a sentence."""
    groups = summaries(rows)
    runs, exact = sum(g.runs for g in groups), sum(g.exact_runs for g in groups)
    regions, equal = sum(g.regions for g in groups), sum(g.exact for g in groups)
    worst = max(group.error for group in groups)
    return (
        f"{exact:,} of {runs:,} runs and {equal:,} of {regions:,} regions, transfers and loops are "
        f"equal to the RTL; worst error {100 * worst:.2f} %"
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f}"


def _text(rows: Sequence[Row], engine: str) -> str:
    return json.dumps(to_json(rows, engine), indent=1) + "\n"


def to_json(rows: Sequence[Row], engine: str) -> dict[str, Any]:
    """The whole result as numbers a program reads."""
    return {
        "schema": SCHEMA,
        "engine": engine,
        "groups": [vars(summary) for summary in summaries(rows)],
        "runs": [_run(measurement, comparison) for measurement, comparison in rows],
    }


def _run(measurement: Measurement, result: Comparison) -> dict[str, Any]:
    return {
        "group": measurement.group,
        "name": measurement.name,
        "configuration": measurement.configuration,
        "rtl_cycles": result.rtl_cycles,
        "cycles": result.cycles,
        "rtl_l1_waits": result.rtl_waits,
        "l1_waits": result.waits,
        "regions": len(result.parts),
        "exact": result.exact,
        "error": result.error,
        "differences": result.differences,
    }

"""pulpsim tune: the fastest tiling and kernel of each layer, found by simulation, remembered."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from rich.console import Console

from autotuner.database import Database
from autotuner.measure import Limits, Measure
from autotuner.outcome import Outcome
from autotuner.search import Found, exhaustive, guided, limit, paper, ranked
from autotuner.single import MeasureTile
from autotuner.space import Point, Space
from pulpsim.config import STANDARD_OUTPUT
from pulpsim.console import compact_table, report_console
from pulpsim.output import check_writable, write
from pulpsim.tune_config import Options, Tuning, load_tuning
from pulpsim.tuned import Tuned, best_total, one_size, own_total, report_json, tuned_toml

SUCCESS, FAILED, INTERRUPTED = 0, 1, 130
SHOWN = 5  # points of a layer in the report


def tune(
    file: Path | None, options: Options, output: Path | None, json: Path | None, with_paper: bool
) -> int:
    """Carry out a search, write what was asked for, and return the command's exit status.

    raises    ConfigError
    """
    for option, target in (("-o", output), ("--json", json)):
        if target and target != STANDARD_OUTPUT:
            check_writable(option, target)
    tuning = load_tuning(file, options)
    console = report_console()
    database = Database(tuning.database)
    layers: list[Tuned] = []
    is_interrupted = False
    try:
        for name, space in tuning.spaces.items():
            layers.append(_tuned(name, space, tuning, database, console, with_paper))
            show_layer(layers[-1], console)
    except KeyboardInterrupt:
        is_interrupted = True
        console.print(
            f"interrupted; {len(database)} measurements are in {tuning.database}: the same command "
            f"goes on from here"
        )
    finally:
        database.close()
    if len(layers) > 1:
        show_sums(layers, console)
    if output:
        _write_tuned(tuning.chip_name, layers, output)
    if json:
        text = report_json(tuning.chip.name, tuning.how.policy, layers)
        if json == STANDARD_OUTPUT:
            sys.stdout.write(text)
        else:
            write("--json", json, text.encode())
    if is_interrupted:
        return INTERRUPTED
    return SUCCESS if all(layer.best for layer in layers) else FAILED


def _tuned(
    name: str,
    space: Space,
    tuning: Tuning,
    database: Database,
    console: Console,
    with_paper: bool,
) -> Tuned:
    how = tuning.how
    most = len(space) if how.policy == "exhaustive" else limit(space)
    with Progress(name, most, console).shown() as progress:
        where = space.layer, tuning.chip, database
        limits = Limits(workers=how.workers, max_cycles=how.max_cycles)
        measure = Measure(*where, limits, on_end=progress.note)
        tile = MeasureTile(*where, limits, on_end=progress.note_tile)
        default = measure([space.default()])[0]
        chosen = paper(space, measure, tile) if with_paper or how.policy == "paper" else []
        if how.policy == "paper":
            found = chosen
        else:
            policy = exhaustive if how.policy == "exhaustive" else guided
            found = ranked({f.point: f for f in [*policy(space, measure), *chosen]}.values())
    of_paper = chosen[0].outcome if chosen else None
    simulated = measure.simulated + tile.simulated
    return Tuned(name, space, found, default, of_paper, simulated, tuning.counts[name])


class Progress:
    """How far the search of a layer is: points done, best so far, time left at most."""

    def __init__(self, name: str, most: int, console: Console) -> None:
        self.name, self.most, self.console = name, most, console
        self.started = monotonic()
        self.done: dict[Point, Outcome] = {}
        self.tiles = 0

    def note(self, point: Point, outcome: Outcome) -> None:
        """A point is done."""
        self.done[point] = outcome
        self._update()

    def note_tile(self, point: Point, outcome: Outcome) -> None:
        """A single tile is done."""
        self.tiles += 1
        self._update()

    @property
    def line(self) -> str:
        """One line of it."""
        done = len(self.done)
        best = min((o.rank for o in self.done.values()), default=float("inf"))
        left = (monotonic() - self.started) / done * max(self.most - done, 0) if done else 0.0
        what = f"best {best:,.0f} cycles" if best < float("inf") else "none has succeeded"
        return f"{self.name}: {done + self.tiles} points, {what}, {left:.0f} s left at most"

    def _update(self) -> None:
        if self.status:
            self.status.update(self.line)

    @contextmanager
    def shown(self) -> Iterator["Progress"]:
        """Show it in a terminal while the body runs."""
        self.status = None
        if not self.console.is_terminal:
            yield self
            return
        with self.console.status(f"{self.name} ...") as self.status:
            yield self


def show_layer(layer: Tuned, console: Console) -> None:
    """The best points of a layer, and what they are better than."""
    failed = sum(found.outcome.cycles is None for found in layer.found)
    console.print(
        f"{layer.name}: {len(layer.space):,} points, {len(layer.found):,} measured, "
        f"{layer.simulated:,} simulated now, {failed:,} failed"
    )
    table = compact_table("tile", "blocking", "buffers", "cores", "L1 bytes", "cycles", left=2)
    for found in _different(layer.found)[:SHOWN]:
        tile, blocking, buffers, cores = str(found.point).split("  ")
        numbers = buffers.split()[0], cores.removesuffix("c"), f"{found.outcome.l1_bytes:,}"
        table.add_row(tile, blocking, *numbers, f"{found.outcome.cycles:,}")
    console.print(table)
    for what, outcome in (("its own choice", layer.default), ("the paper's policy", layer.paper)):
        gain = layer.gain(outcome)
        if gain and outcome:
            console.print(f"{gain:.2f} times as fast as {what}, {outcome.cycles:,} cycles")
    console.print()


def _different(found: Sequence[Found]) -> list[Found]:
    """Of points that take as many cycles and bytes, one: most are the same program."""
    seen: dict[tuple[float, int | None], Found] = {}
    for one in found:
        if one.outcome.cycles is not None:
            seen.setdefault((one.outcome.rank, one.outcome.l1_bytes), one)
    return list(seen.values())


def show_sums(layers: Sequence[Tuned], console: Console) -> None:
    """All layers together, each tuned against one blocking for all."""
    kernel, cycles = one_size(layers)
    best, own = best_total(layers), own_total(layers)
    rows = [("each layer at its best", best), ("each layer's own choice", own)]
    rows.append((f"one blocking for all: {dict(kernel) or 'its own'}", cycles))
    table = compact_table("all layers, one after the other", "cycles", "times")
    for what, value in rows:
        if value is not None and best:
            table.add_row(what, f"{value:,}", f"{value / best:.2f}")
    console.print(table)


def _write_tuned(chip: str, layers: Sequence[Tuned], output: Path) -> None:
    """A config for each layer: FILE.toml, or FILE.NAME.toml if there are several."""
    for layer in layers:
        if layer.best is None:
            continue
        own = output.with_name(f"{output.stem}.{layer.name}{output.suffix}")
        text = tuned_toml(chip, layer.space.layer, layer.best.point)
        write("-o", own if len(layers) > 1 else output, text.encode())

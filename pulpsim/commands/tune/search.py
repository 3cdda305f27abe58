"""pulpsim tune: the fastest tiling and kernel of each layer, found by simulation, remembered."""

import sys
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from rich.console import Console

from autotuner.extrapolation import LARGE, Steady
from autotuner.measure import Limits, Measure
from autotuner.measurement import Outcome
from autotuner.measurement_store import Database
from autotuner.result import Found
from autotuner.search import TYPICAL, confirmed, exhaustive, guided, limit, paper, ranked
from autotuner.single_kernel_baseline import kernels_at
from autotuner.single_tile import MeasureTile
from autotuner.space import PAPER_TILES, Point, Space
from autotuner.tuned import keep_best
from pulpsim.cli.config_options import ChosenChip
from pulpsim.cli.executor import executor_of
from pulpsim.cli.output import STANDARD_OUTPUT, check_writable, write
from pulpsim.cli.terminal import report_console, spinner
from pulpsim.commands.tune.config import Options, Tuning, load_tuning
from pulpsim.commands.tune.plots import check_picture, write_picture
from pulpsim.commands.tune.progress import Pace, Progress
from pulpsim.commands.tune.result import (
    Paper,
    Tuned,
    fastest,
    report_json,
    tuned_toml,
    typed_layers,
)
from pulpsim.commands.tune.tables import show_layer, show_network, show_types
from soc.config.toml import Mistakes

SUCCESS, FAILED, INTERRUPTED = 0, 1, 130


def tune(
    file: Path | None,
    options: Options,
    output: Path | None,
    json: Path | None,
    with_paper: bool,
    picture: Path | None = None,
) -> int:
    """Carry out a search, write what was asked for, and return the command's exit status.

    raises    ConfigError
    """
    for option, target in (("-o", output), ("--json", json)):
        if target and target != STANDARD_OUTPUT:
            check_writable(option, target)
    if picture:
        check_picture(picture)
    tuning = load_tuning(file, options)
    console = report_console()
    database = Database(tuning.database)
    layers: list[Tuned] = []
    pace, is_whole = Pace(len(tuning.spaces)), True
    try:
        with executor_of(tuning.how, console) as executor:
            for name in tuning.spaces:
                layers.append(tuned(name, tuning, database, executor, console, pace, with_paper))
                show_layer(layers[-1], console)
    except KeyboardInterrupt:
        is_whole = False
        console.print(
            f"interrupted; {len(database):,} measurements are in {tuning.database}: the same "
            f"command goes on from here",
            soft_wrap=True,
        )
    finally:
        database.close()
    if is_whole and len(layers) > 1 and not tuning.how.types:
        show_network(layers, console)
    chosen = layers
    if is_whole and tuning.how.types:
        by_type = typed_layers(layers, tuning.typed)
        show_types(by_type, console)
        chosen = [fastest(own) for own in by_type.values()]
    is_one = len(tuning.typed) == 1
    mistakes = Mistakes()
    with mistakes.collected():
        if output:
            _write_tuned(tuning.chip, chosen, output, is_one)
    with mistakes.collected():
        if picture:
            _write_pictures(chosen, picture, is_one, console)
    with mistakes.collected():
        if json:
            names = [layer.name for layer in chosen] if tuning.how.types else None
            text = report_json(tuning.chip.spec.name, tuning.how.policy, layers, is_whole, names)
            _write_json(text, json)
    mistakes.raise_any()
    if not is_whole:
        return INTERRUPTED
    return SUCCESS if all(layer.best for layer in layers) else FAILED


def tuned(
    name: str,
    tuning: Tuning,
    database: Database,
    executor: Executor,
    console: Console,
    pace: Pace,
    with_paper: bool,
) -> Tuned:
    """Search a layer, and measure what it is compared with."""
    space, policy = tuning.spaces[name], tuning.how.policy
    with_paper |= policy == "paper"
    with spinner(console, f"{name}: tiles that fit ..."):
        expected = _expected(space, policy, with_paper)
    if space.layer.macs >= LARGE and space.default().is_phased:
        console.print(
            f"{name}: computed in phases, of which there are no estimates: every point is "
            f"simulated in full",
            soft_wrap=True,
        )
    with Progress(name, expected, console, pace).shown() as progress:
        where = space.layer, space.chip, database
        limits = Limits(max_cycles=tuning.how.max_cycles)
        measure = Measure(*where, limits, executor=executor, on_end=progress.note)
        tile = MeasureTile(*where, limits, executor=executor, on_end=progress.note_tile)
        default = measure([space.default()])[0]
        found, searched = _search(policy, space, measure, tile)
        every = {f.point: f for f in found}
        chosen = None
        if with_paper:
            tiles = PAPER_TILES if policy == "paper" else space.paper_tiles(searched)
            by_paper = paper(space, measure, tile, tiles)
            chosen = Paper(by_paper[0].outcome, len(space.paper(tiles)))
            every |= {f.point: f for f in by_paper}
        best, kernels = ranked(every.values())[0], None
        if len(tuning.spaces) > 1 and best.outcome.cycles is not None:

            def measured(points: Sequence[Point]) -> list[Outcome]:
                outcomes = measure(points)
                every.update({p: Found(p, o) for p, o in zip(points, outcomes, strict=True)})
                return outcomes

            kernels = kernels_at(space, best.point, measured)
    simulated = measure.simulated + tile.simulated
    progress.end(simulated)
    found = ranked(every.values())
    if found and found[0].outcome.cycles is not None:
        keep_best(space, found, database)
    count = tuning.counts[name]
    return Tuned(name, space, found, default, searched, simulated, count, chosen, kernels)


def _expected(space: Space, policy: str, with_paper: bool) -> int:
    """Estimate how many points and tiles will be measured."""
    if policy == "paper":
        return len(space.paper(PAPER_TILES)) + 1
    most = len(space) if policy == "exhaustive" else min(limit(space), TYPICAL)
    return 2 * most if with_paper else most


def _search(
    policy: str, space: Space, measure: Measure, tile: MeasureTile
) -> tuple[list[Found], int]:
    """What a policy finds, and how many points it simulated."""
    if policy == "paper":
        return [], 0
    carry_out = exhaustive if policy == "exhaustive" else guided
    if space.layer.macs < LARGE:
        found = carry_out(space, measure)
    else:
        found = confirmed(carry_out(space, Steady(measure)), measure)
    return found, sum(f.outcome.l1_bytes is not None for f in found)


def _write_tuned(chip: ChosenChip, layers: Sequence[Tuned], output: Path, is_one: bool) -> None:
    """Write a config for each layer."""
    entry = chip.entry(output.parent)
    for layer, file in _files(layers, output, is_one):
        assert layer.best
        text = tuned_toml(entry, layer.space.layer, layer.best.point)
        write("-o", file, text.encode())


def _write_pictures(layers: Sequence[Tuned], file: Path, is_one: bool, console: Console) -> None:
    """Write a picture for each layer."""
    for layer, own in _files(layers, file, is_one):
        with spinner(console, f"drawing {own} ..."):
            write_picture(layer, own)


def _write_json(text: str, file: Path) -> None:
    if file == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        write("--json", file, text.encode())


def _files(layers: Sequence[Tuned], file: Path, is_one: bool) -> list[tuple[Tuned, Path]]:
    """Layers that have a best point, and a file for each: FILE.NAME.toml unless there is one."""

    def own(name: str) -> Path:
        return file if is_one else file.with_name(f"{file.stem}.{name}{file.suffix}")

    return [(layer, own(layer.name)) for layer in layers if layer.best]

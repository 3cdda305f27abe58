"""pulpsim tune: the fastest tiling and kernel of each layer, found by simulation, remembered."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from autotuner.database import Database
from autotuner.measure import Limits, Measure
from autotuner.one_size import kernels_at
from autotuner.places import Place
from autotuner.search import TYPICAL, Found, confirmed, exhaustive, guided, limit, paper, ranked
from autotuner.single import MeasureTile
from autotuner.space import PAPER_TILES, Space
from autotuner.steady import LARGE, Steady
from pulpsim.config import STANDARD_OUTPUT
from pulpsim.console import report_console
from pulpsim.options import ChosenChip
from pulpsim.output import check_writable, write
from pulpsim.tune_config import Options, Tuning, load_tuning
from pulpsim.tune_picture import check_picture, write_picture
from pulpsim.tune_place import place_of
from pulpsim.tune_progress import Progress
from pulpsim.tune_report import show_layer, show_network
from pulpsim.tuned import Paper, Tuned, report_json, tuned_toml

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
    is_interrupted = False
    try:
        with place_of(tuning.how, console) as place:
            for name, space in tuning.spaces.items():
                layers.append(_tuned(name, space, tuning, database, place, console, with_paper))
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
        show_network(layers, console)
    if output:
        _write_tuned(tuning.chip, layers, output)
    if picture:
        for layer, own in _files(layers, picture):
            write_picture(layer, own)
    if json:
        text = report_json(tuning.chip.spec.name, tuning.how.policy, layers)
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
    place: Place,
    console: Console,
    with_paper: bool,
) -> Tuned:
    how = tuning.how
    most = len(space) if how.policy == "exhaustive" else min(limit(space), TYPICAL)
    with Progress(name, most, console).shown() as progress:
        where = space.layer, space.chip, database
        limits = Limits(max_cycles=how.max_cycles)
        measure = Measure(*where, limits, place=place, on_end=progress.note)
        tile = MeasureTile(*where, limits, place=place, on_end=progress.note_tile)
        default = measure([space.default()])[0]
        found, searched = _search(how.policy, space, measure, tile)
        chosen = None
        if with_paper or how.policy == "paper":
            tiles = PAPER_TILES if how.policy == "paper" else space.paper_tiles(searched)
            by_paper = paper(space, measure, tile, tiles)
            chosen = Paper(by_paper[0].outcome, len(space.paper(tiles)))
            found = ranked({f.point: f for f in [*by_paper, *found]}.values())
        kernels = None
        if len(tuning.spaces) > 1 and found[0].outcome.cycles is not None:
            kernels = kernels_at(space, found[0].point, measure)
    simulated = measure.simulated + tile.simulated
    count = tuning.counts[name]
    return Tuned(name, space, found, default, searched, simulated, count, chosen, kernels)


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


def _write_tuned(chip: ChosenChip, layers: Sequence[Tuned], output: Path) -> None:
    """A config for each layer."""
    entry = chip.entry(output.parent)
    for layer, file in _files(layers, output):
        assert layer.best
        text = tuned_toml(entry, layer.space.layer, layer.best.point)
        write("-o", file, text.encode())


def _files(layers: Sequence[Tuned], file: Path) -> list[tuple[Tuned, Path]]:
    """Layers that have a best point, and a file for each: FILE.NAME.toml if there are several."""

    def own(name: str) -> Path:
        return file.with_name(f"{file.stem}.{name}{file.suffix}") if len(layers) > 1 else file

    return [(layer, own(layer.name)) for layer in layers if layer.best]

"""pulpsim deploy: a network, planned for a chip, trained there, and held against PyTorch."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from autotuner.measurement_store import Database
from autotuner.tuned import tuned_by
from firmware.builder import KernelError
from pulpsim.cli.config_options import ChosenChip, cache_file
from pulpsim.cli.output import STANDARD_OUTPUT, check_writable, write, write_json
from pulpsim.cli.terminal import page_console, progress, report_console, spinner
from pulpsim.commands.deploy.comparison import (
    Compared,
    comparison_json,
    show_comparison,
    variants,
)
from pulpsim.commands.deploy.layers import layers_toml
from pulpsim.commands.deploy.model import (
    SHAPE,
    check_file,
    check_loss,
    check_network,
    check_numbers,
    examples_of,
    load_weights,
    loss_of,
    optimizer_of,
    precision_of,
    shape_of,
    torch_module,
)
from pulpsim.commands.deploy.onnx_graph import compared, onnx_deployment
from pulpsim.commands.deploy.page import page_of
from pulpsim.commands.deploy.tables import json_of, show_plan, show_run
from pulpsim.commands.deploy.verification import verified
from soc.config.toml import ConfigError, Mistakes, Table
from trainlib.deploy import Deployed, DeployError, Trained, deploy
from trainlib.deploy.precision import Precision

SUCCESS, WRONG = 0, 1


@dataclass(frozen=True)
class Options:
    """The command line's options.

    source, table    the config file that was given, and all that it has
    """

    network: str
    input: str | None
    loss: str
    optimizer: str
    learning: dict[str, Any]
    accumulate: int | None
    mean: bool
    data: Path | None
    against: Path | None
    steps: int | None
    chip: str | None
    settings: Sequence[str]
    cores: int | None
    output: Path | None
    save: Path | None
    load: Path | None
    json: Path | None
    seed: int
    plans_only: bool = False
    verifies: bool = False
    is_tuned: bool = False
    database: Path | None = None
    layers: Path | None = None
    report: Path | None = None
    precision: Mapping[str, Any] = field(default_factory=dict)
    repairs: bool = False
    compares: bool = False
    source: Path | None = None
    table: Table = field(default_factory=dict)


def run(options: Options) -> int:
    """Carry out the command; return its exit status.

    raises    ConfigError
    """
    chip = _checked(options)
    try:
        if options.compares:
            return _compare(options, chip)
        make = _onnx if options.network.endswith(".onnx") else _torch
        return _carry_out(options, make(options, chip))
    except (DeployError, KernelError) as error:
        named = f"{options.network}: "
        lines = (line.removeprefix(named) for line in str(error).split("\n"))
        raise ConfigError([named + line for line in lines]) from None


def _checked(options: Options) -> Any:
    """The chip.

    raises    ConfigError with every mistake that the options show by themselves
    """
    mistakes, chip = Mistakes(), None
    written = {"-o": options.output, "--save": options.save, "--layers": options.layers}
    written |= {"--report": options.report, "--json": options.json}
    read = {"--data": options.data, "--load": options.load}
    checks: list[Callable[[], Any]] = [
        lambda: check_numbers({"--steps": options.steps, "--accumulate": options.accumulate}),
        lambda: check_numbers({"--seed": options.seed}, 0),
        *(
            partial(check_writable, name, f, options.data)
            for name, f in written.items()
            if f and f != STANDARD_OUTPUT
        ),
        lambda: _check_plan(options),
        lambda: _check_comparison(options),
        lambda: _check_precision(options),
    ]
    if options.network.endswith(".onnx"):
        checks.append(partial(_check_onnx, options))
    else:
        of_torch = _check_torch, _check_input, lambda o: check_network(o.network)
        checks += [partial(check_file, f"{name} {f}", f) for name, f in read.items() if f]
        checks += [partial(check, options) for check in (*of_torch, lambda o: check_loss(o.loss))]
    for check in checks:
        with mistakes.collected():
            check()
    with mistakes.collected():
        chip = _chip(options)
    mistakes.raise_any()
    return chip


def _check_plan(options: Options) -> None:
    runs = {"--verify": options.verifies, "--against": options.against, "--save": options.save}
    given = [option for option, value in runs.items() if value]
    if options.plans_only and given:
        raise ConfigError([f"{given[0]}: --plan-only trains nothing; leave one of them out"])


def _check_precision(options: Options) -> None:
    try:
        Precision.of(**precision_of(**options.precision))
    except DeployError as error:
        lines = str(error).split("\n")
        raise ConfigError([f"{options.network}: {line}" for line in lines]) from None


def _check_torch(options: Options) -> None:
    if options.against:
        raise ConfigError([f"--against {options.against}: for a FILE.onnx; a module has --verify"])
    if options.repairs:
        raise ConfigError(["--repair: for a FILE.onnx, whose backward nodes may have defects"])
    optimizer_of(options.optimizer, options.learning)


def _check_input(options: Options) -> None:
    if options.input is None:
        raise ConfigError([f"--input is missing: {SHAPE}"])
    shape_of(options.input)


def _check_comparison(options: Options) -> None:
    single = {
        "--verify": options.verifies,
        "--against": options.against,
        "-o": options.output,
        "--save": options.save,
        "--layers": options.layers,
        "--report": options.report,
    }
    given = [option for option, value in single.items() if value]
    if options.compares and given:
        raise ConfigError([f"--compare: {given[0]} is of one training; leave one of them out"])


def _compare(options: Options, chip: Any) -> int:
    """Plan the network, and train it, in each type, one after the other."""
    console = report_console() if options.json == STANDARD_OUTPUT else page_console()
    make = _onnx if options.network.endswith(".onnx") else _torch
    found = list[Compared]()
    for variant in variants(options.precision):
        job, trained = make(replace(options, precision=variant.precision), chip), None
        if not options.plans_only:
            trained = _train(job, console, f"training in {variant.name}")
        found.append(Compared(variant, job.deployed, trained))
    show_comparison(found, options.network, console)
    if options.json:
        result = json_of(found[0].deployed, options.network, found[0].trained, None)
        write_json(result | {"compare": comparison_json(found)}, options.json)
    return SUCCESS


@dataclass(frozen=True)
class _Job:
    """A deployment, its batches, the losses and weights to compare its training with, and the
    optimizer's states to go on with.
    """

    deployed: Deployed
    batches: list[Any]
    check: Callable[[Trained], dict[str, Any]] | None
    states: Mapping[str, Any] = field(default_factory=dict)


def _torch(options: Options, chip: Any) -> _Job:
    """A module: FILE.py:NAME."""
    assert options.input
    optimizer = optimizer_of(options.optimizer, options.learning)
    shape = shape_of(options.input)
    with spinner(report_console(), "importing PyTorch and the network ..."):
        loss, model = loss_of(options.loss), torch_module(options.network, options.seed)
    loaded = load_weights(model, options.load) if options.load else {}
    states = {name: array for name, array in loaded.items() if name not in model.state_dict()}
    if states and (options.verifies or options.output):
        option = "--verify" if options.verifies else "-o"
        raise ConfigError([f"--load: its optimizer states are not known to {option}; leave it out"])
    examples = examples_of(model, shape, options.loss, options.data, options.seed)
    accumulate = options.accumulate or 1
    batches = list(examples.batches((options.steps or 1) * accumulate))
    how: dict[str, Any] = {"accumulate": accumulate, "mean": options.mean, "cores": options.cores}
    how["tuned"] = _tuned(options, chip)
    how |= precision_of(**options.precision)
    with progress("planning") as tell:
        deployed = deploy(model, batch=batches[0], loss=loss, optimizer=optimizer, chip=chip, **how)
        needed = [value.name for value in deployed.graph.of_role("parameter", "buffer")]
        if options.load and (missing := [name for name in needed if name not in loaded]):
            raise ConfigError(
                [f"--load {options.load}: no array {missing[0]}; --save writes what it takes"]
            )
        deployed.built(tell=tell)
    if not options.verifies:
        return _Job(deployed, batches, None, states)
    if drop := next((node for node in deployed.graph.nodes if node.op == "dropout"), None):
        raise ConfigError(
            [f"--verify: layer {drop.layer} drops what the chip's own numbers say; let p be 0"]
        )
    return _Job(
        *(deployed, batches),
        lambda trained: verified(model, loss, batches, deployed, trained),
    )


def _onnx(options: Options, chip: Any) -> _Job:
    """A training graph: FILE.onnx."""
    assert options.data
    optimizer = Path(options.optimizer) if options.optimizer.endswith(".onnx") else None
    precision = Precision.of(**precision_of(**options.precision))
    how: dict[str, Any] = {
        "accumulate": options.accumulate,
        "mean": options.mean,
        "cores": options.cores,
        "tuned": _tuned(options, chip),
        "precision": precision,
        "repairs": options.repairs,
    }
    with progress("planning") as tell:
        network = Path(options.network)
        deployed, batches = onnx_deployment(network, optimizer, options.data, chip, **how)
        deployed.built(tell=tell)
    if options.steps:
        batches = [batches[n % len(batches)] for n in range(options.steps * deployed.accumulate)]
    against = options.against
    if against is None:
        return _Job(deployed, batches, None)
    return _Job(deployed, batches, lambda trained: compared(trained, deployed, against))


def _check_onnx(options: Options) -> None:
    """raises    ConfigError for missing files, and for what a training graph says by itself"""
    mistakes = []
    if options.verifies:
        mistakes.append("--verify: for a module of PyTorch; a FILE.onnx has --against")
    if options.load:
        mistakes.append("--load: for a module of PyTorch; a FILE.onnx has weights of its own")
    said = {"--input": options.input}
    said |= {f"--{name.replace('_', '-')}": n for name, n in options.learning.items()}
    if not options.optimizer.endswith(".onnx") and options.optimizer != "sgd":
        said["--optimizer"] = options.optimizer
    given = ", ".join(option for option, value in said.items() if value is not None)
    if given:
        mistakes.append(
            f"{given}: a FILE.onnx says that: its inputs, and its SGD nodes; leave it out"
        )
    if not Path(options.network).exists():
        mistakes.append(f"{options.network}: there is no such file")
    if options.data is None:
        mistakes.append("--data is missing: an .npz file with the inputs of the graph")
    if mistakes:
        raise ConfigError(mistakes)


def _tuned(options: Options, chip: Any) -> Any:
    """What knows the tiles that have been measured; None: they are not asked for."""
    if not options.is_tuned:
        if options.database:
            raise ConfigError([f"--database {options.database}: for --tuned; give that too"])
        return None
    if options.database and not options.database.exists():
        raise ConfigError([f"--database {options.database}: there is no such file"])
    return tuned_by(Database(options.database or cache_file("tuned.db")), chip)


def _chip(options: Options) -> Any:
    mistakes = Mistakes()
    folder = options.source.parent if options.source else Path()
    where = str(options.source or "deploy"), folder, options.table
    chosen = ChosenChip.of(*where, options.chip, options.settings, mistakes)
    mistakes.raise_any()
    if options.cores is not None and not 1 <= options.cores <= chosen.spec.cores:
        most = chosen.spec.cores
        raise ConfigError([f"--cores {options.cores}: the chip {chosen.spec.name} has 1 to {most}"])
    return chosen.spec


def _carry_out(options: Options, job: _Job) -> int:
    deployed, batches = job.deployed, job.batches
    console = report_console() if options.json == STANDARD_OUTPUT else page_console()
    show_plan(deployed, console)
    if options.layers:
        write("--layers", options.layers, layers_toml(deployed).encode())
    if options.output:
        with progress("building"):
            elf = deployed.with_data(batches).program.to_elf()
        write("-o", options.output, elf)
    trained = check = None
    if not options.plans_only:
        trained = _train(job, console)
        show_run(deployed, trained, options.network, console)
    if trained and job.check:
        check = job.check(trained)
        _show_check(check, console)
    if trained and options.save:
        _save(options.save, trained)
    if options.report:
        page = page_of(deployed, options.network, trained)
        write("--report", options.report, page.encode())
    if options.json:
        write_json(json_of(deployed, options.network, trained, check), options.json)
    return SUCCESS if check is None or check["correct"] else WRONG


def _train(job: _Job, console: Console, what: str = "training") -> Trained:
    """Train with all batches; print what it warns of."""
    with warnings.catch_warnings(record=True) as found, _bar(len(job.batches), what) as note:
        trained = job.deployed.train(job.batches, states=job.states, on_batch=note)
    for warning in found:
        console.print(f"warning: {warning.message}", soft_wrap=True)
    return trained


@contextmanager
def _bar(count: int, what: str = "training") -> Iterator[Any]:
    """Show a progress bar of batches in a terminal; yield what advances it."""
    console = report_console()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
    bar.disable = not console.is_terminal
    with bar:
        task = bar.add_task(what, total=count)
        yield lambda number, loss: bar.update(
            task, completed=number + 1, description=f"{what}, loss {loss:.4g}"
        )


def _show_check(check: dict[str, Any], console: Any) -> None:
    """Print which values are too far from the expected ones, and how far losses are."""
    for what in ("gradients", "weights"):
        parts = check.get(what, {})
        wrong = {name: part for name, part in parts.items() if not part["correct"]}
        for name, part in wrong.items():
            console.print(f"{name}: {part['error']:.3g} off, more than {part['bound']:.3g}")
        if parts:
            good = len(parts) - len(wrong)
            console.print(f"{good} of {len(parts)} {what} are as near as they must be")
    if check["losses"]:
        furthest = max(abs(part["loss"] - part["wanted"]) for part in check["losses"])
        console.print(f"losses within {furthest:.2g}")


def _save(file: Path, trained: Trained) -> None:
    from io import BytesIO

    data = BytesIO()
    np.savez(data, **{**trained.weights, **trained.states})  # type: ignore[arg-type]
    write("--save", file, data.getvalue())


def show_operators() -> None:
    """List operators that networks may have: ATen's and ONNX's, as far as these are installed.

    raises    ConfigError without either
    """
    parts = []
    with suppress(ImportError):
        from trainlib.deploy.importers.exported_graph import ATEN

        parts.append("\n".join(["PyTorch (ATen):", *sorted(ATEN)]))
    with suppress(ImportError):
        from trainlib.deploy.importers.onnx_graph import RULES

        parts.append("\n".join(["ONNX:", *sorted(RULES)]))
    if not parts:
        message = "torch and onnx are missing: pip install 'pulpsim[torch]', or 'pulpsim[onnx]'"
        raise ConfigError([f"--operators: {message}"])
    page_console().print("\n\n".join(parts))

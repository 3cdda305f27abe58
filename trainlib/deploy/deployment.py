"""A network, deployed: planned for a chip, trained there, evaluated.

deployed = deploy(model, loss=cross_entropy, batch=(x, t), optimizer=SGD(lr=0.01), chip="pulp")
trained = deployed.train([(x0, t0), (x1, t1)], gradients=True)
trained.losses, trained.weights["conv1.weight"], trained.gradients[0]["conv1.weight"]
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from typing import Any

import numpy as np

from soc.chip.spec import SocSpec, load_chip
from soc.host.collector import paused_collector
from trainlib.deploy.finite import check_values
from trainlib.deploy.graph.values import DeployError, Graph, check_together, kind_of
from trainlib.deploy.learning_rates import LearningRates, Rates
from trainlib.deploy.memory import Memory
from trainlib.deploy.optimizers import Optimizer
from trainlib.deploy.planner import Planner
from trainlib.deploy.precision import SINGLE, Precision, Scale
from trainlib.deploy.program import Built, typed
from trainlib.deploy.program_store import ProgramStore
from trainlib.deploy.results import Evaluated, Trained
from trainlib.deploy.running import Running, inputs_of
from trainlib.deploy.schedule import Schedule
from trainlib.deploy.step import evaluation, training
from trainlib.deploy.tiles import Tuned
from trainlib.deploy.underflow import lost_gradients, may_underflow, underflow_warning

Batch = Sequence[Any]


@dataclass(repr=False)
class Deployed:
    """A network on a chip.

    graph         forward, with its loss
    evaluated     the graph in evaluation mode, and its outputs' names; None: there is none
    accumulate    batches of a step, whose gradients are added, or averaged if `mean`
    tuned         tiles of kernels that have been measured, see trainlib.deploy.tiles
    precision     what is computed with halves, see trainlib.deploy.precision
    store         of programs that were planned before
    """

    graph: Graph
    optimizer: Optimizer
    chip: SocSpec
    evaluated: Callable[[], tuple[Graph, tuple[str, ...]]] | None = None
    accumulate: int = 1
    mean: bool = False
    cores: int | None = None
    tuned: Tuned | None = None
    precision: Precision = SINGLE
    engine: str = "compiled"
    progress: Callable = nullcontext
    store: ProgramStore = field(default_factory=ProgramStore)
    _built: dict[Any, Built] = field(default_factory=dict)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    _is_checked: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        most = self.chip.cores
        if self.cores is not None and self.cores not in range(1, most + 1):
            raise DeployError(f"cores = {self.cores}; the chip {self.chip.name} has 1 to {most}")
        self.precision.check(self.graph)
        check_values(self.graph, self.graph.arrays)

    def __repr__(self) -> str:
        counts = f"{len(self.graph.nodes)} operators, {len(self.graph.trained)} parameters learn"
        return f"<Deployed {counts} by {self.optimizer}, on {self.chip.name}>"

    @property
    def program(self) -> Any:
        """The training step's program; the host hands over its batches."""
        return self.built().program

    @property
    def memory(self) -> Memory:
        """Where everything lies: peak, code, tables."""
        return self.built().memory

    @property
    def schedule(self) -> Schedule:
        """What is computed, in its order."""
        return self.built().schedule

    @paused_collector()
    def built(
        self, *, keeps_gradients: bool = False, tell: Callable[[str], None] | None = None
    ) -> Built:
        """The program of a training step.

        tell    called with each layer and its step while it is planned

        raises    DeployError, KernelError
        """
        if keeps_gradients not in self._built:
            build = partial(self._planner.build, tell=tell)
            self._built[keeps_gradients] = self._fitted(build, keeps_gradients)
        return self._built[keeps_gradients]

    def with_data(self, batches: Sequence[Batch], steps: int | None = None) -> Built:
        """A program that holds its batches: it needs no host.

        steps     that it makes; by default as many as the batches suffice for

        raises    DeployError, KernelError
        """

        def build_with(schedule: Schedule, **how: Any) -> Built:
            values = schedule.graph.values
            given = [inputs_of(schedule, batch) for batch in batches]
            pool = [{n: typed(values[n], a) for n, a in batch.items()} for batch in given]
            return self._planner.build(schedule, pool=pool, steps=steps, **how)

        return self._fitted(build_with)

    def _fitted(self, build: Callable[..., Built], keeps_gradients: bool = False) -> Built:
        """What `build` makes of a schedule of a training step that fits: see `fitted`."""
        how: dict[str, Any] = {"mean": self.mean, "keeps_gradients": keeps_gradients}
        how["fits"] = self._planner.fits
        how |= {"accumulate": self.accumulate, "precision": self.precision}
        return self._planner.fitted(partial(training, self.graph, self.optimizer, **how), build)

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self.chip, self.cores, self.tuned, self.store)

    def train(
        self,
        batches: Iterable[Batch],
        *,
        gradients: bool = False,
        weights: Mapping[str, Any] | None = None,
        states: Mapping[str, Any] | None = None,
        lr: Rates | None = None,
        on_batch: Callable[[int, float], None] | None = None,
    ) -> Trained:
        """Train with these batches, each once; a step takes `accumulate` of them.

        gradients    let every step's be returned
        weights      to begin with, by state_dict's names; those of the network by default
        states       of the optimiser, as an earlier training has left them
        lr           the learning rate of all steps, a list of them by group, a function of the
                     step, from 0 on, or a torch.optim.lr_scheduler, which steps after each step
        on_batch     called with the number of a batch, from 0, and its loss

        warns     once, where f16 without a loss scale loses gradients

        raises    DeployError
        """
        built = self.built(keeps_gradients=gradients)
        graph = built.schedule.graph
        running = Running(built, engine=self.engine, progress=self.progress)
        given = {n: a for n, a in (weights or {}).items() if self._is_known(graph, n)}
        kept = [v.name for v in graph.of_role("state")]
        if unknown := [name for name in states or {} if name not in kept]:
            raise DeployError(
                f"{unknown[0]}: no state of {type(self.optimizer).__name__} here; it is what "
                f"`states` of an earlier training has, and weights are `weights`"
            )
        given |= states or {}
        check_values(graph, given)
        running.write(given)
        rates = None if lr is None else LearningRates(lr, self.optimizer)
        losses: list[float] = []
        found: list[dict[str, np.ndarray]] = []
        for number, batch in enumerate(batches):
            if number == 0:
                self._warn(batch, given)
            if rates and number % self.accumulate == 0:
                words = rates.at(number // self.accumulate)
                running.write({n: r for n, r in words.items() if n in built.addresses})
            running.batch(inputs_of(built.schedule, batch))
            losses += self._loss(running, graph)
            if on_batch:
                on_batch(number, losses[-1])
            if (number + 1) % self.accumulate:
                continue
            if rates:
                rates.go_on()
            if gradients:
                read = running.read(graph.gradients.values())
                found.append(
                    {n: read[g].reshape(graph.values[n].shape) for n, g in graph.gradients.items()}
                )
        if len(losses) % self.accumulate:
            raise DeployError(
                f"{len(losses)} batches; a step takes {self.accumulate}, so give a multiple of that"
            )
        names = [v.name for v in graph.of_role("parameter", "buffer")]
        begun = [v for v in graph.of_role("state") if v.name in graph.arrays]
        kept = [v.name for v in begun if v.dtype in ("float32", "int32")]  # halves are weights'
        self.weights = running.read(names)
        self.weights |= {n: self.weights[first] for n, first in graph.tied.items()}
        return Trained(losses, self.weights, running.read(kept), found, running.report())

    def underflow(self, batch: Batch, weights: Mapping[str, Any] | None = None) -> dict[str, float]:
        """The share of each parameter's gradient that is 0 because it is computed with FP16: none
        where that is little. It takes about as long as the simulation of a batch.

        weights    by state_dict's names; those of the network by default

        raises    DeployError
        """
        inputs = inputs_of(evaluation(self.graph, ()), batch)
        values = self.graph.values
        given = {n: typed(values[n], a) for n, a in {**(weights or {}), **inputs}.items()}
        return lost_gradients(self.graph, self.precision, given)

    def _warn(self, batch: Batch, weights: Mapping[str, Any]) -> None:
        """Warn, once, if FP16 loses gradients."""
        if self._is_checked or not may_underflow(self.precision):
            return
        self._is_checked = True
        known = {n: a for n, a in weights.items() if n in self.graph.values}
        if lost := self.underflow(batch, known):
            message = underflow_warning(lost, len(self.graph.trained))
            warnings.warn(message, stacklevel=3)

    def evaluate(
        self, batches: Iterable[Batch], weights: Mapping[str, Any] | None = None
    ) -> Evaluated:
        """Losses and outputs of batches, in evaluation mode, with what was trained last.

        weights    by state_dict's names

        raises    DeployError
        """
        if self.evaluated is None:
            raise DeployError("this network has no forward graph to evaluate")
        if "evaluation" not in self._built:
            forward, names = self.evaluated()
            check_values(forward, forward.arrays)
            schedule = evaluation(forward, names, self.precision)
            self._built["evaluation"] = self._planner.build(schedule)
        built = self._built["evaluation"]
        graph = built.schedule.graph
        begun = {
            n: a
            for n, a in (weights or {}).items()
            if n in graph.values or self._is_known(self.graph, n)
        }
        check_values(graph, begun)
        running = Running(built, engine=self.engine, progress=self.progress)
        given = {**self.weights, **begun}
        running.write({n: a for n, a in given.items() if n in built.addresses})
        losses: list[float] = []
        outputs: list[Any] = []
        names = built.schedule.kept[bool(graph.loss) :]
        for batch in batches:
            running.batch(inputs_of(built.schedule, batch))
            losses += self._loss(running, graph)
            read = running.read(names)
            found = tuple(read[name].astype(np.float32) for name in names)
            outputs.append(found[0] if len(found) == 1 else found)
        return Evaluated(losses, outputs, running.report())

    def _loss(self, running: Running, graph: Graph) -> list[float]:
        if graph.loss is None:
            return []
        return [float(running.read([graph.loss])[graph.loss].reshape(()))]

    @staticmethod
    def _is_known(graph: Graph, name: str) -> bool:
        """Is it a weight? What torch alone keeps, as num_batches_tracked, is left out."""
        if name in graph.values and graph.values[name].role in ("parameter", "buffer"):
            return True
        if name.endswith("num_batches_tracked") or name in graph.tied:
            return False
        raise DeployError(f"{name}: the network has no such parameter or buffer")


def deploy(
    model: Any,
    *,
    batch: Batch,
    loss: Any = None,
    optimizer: Any,
    chip: SocSpec | str | PathLike = "pulp",
    dtype: str = "f32",
    dtypes: Mapping[str, str] | None = None,
    master: str = "f32",
    loss_scale: Scale = None,
    accumulate: int = 1,
    mean: bool = False,
    cores: int | None = None,
    tuned: Tuned | None = None,
    engine: str = "compiled",
    progress: Callable = nullcontext,
) -> Deployed:
    """Plan the training of a torch.nn.Module.

    batch         (x, target): the shapes and types of every batch; either may be a tuple, x of the
                  model's arguments, and each of those a dict
    loss          loss(output, target); None: the model's forward takes both and returns the loss
    optimizer     SGD, Adam or AdamW of trainlib.deploy, or of torch.optim with parameters of the
                  model, whose groups count; those that it does not have do not learn
    dtype         what layers compute with: "f32", "f16" or "bf16"
    dtypes        the same by patterns of their names: {"head.*": "f32"}
    master        of parameters and the optimiser's state: "f32"
    loss_scale    None, a power of two, "dynamic", or a LossScale
    accumulate    batches of a step, whose gradients are added, or averaged if `mean`
    cores         that compute; None: all of the chip
    tuned         tiles that have been measured: autotuner.tuned.tuned_by(Database(...), chip)
    engine        "compiled", or "event", the slow definition
    progress      progress(what) is a context that shows what takes long

    raises    DeployError; TypeError for arguments of another kind; ImportError without torch
    """
    from trainlib.deploy.importers.torch_graph import graph_of

    _check(batch, loss)
    is_own = isinstance(optimizer, Optimizer)
    optimizer, learning = (optimizer, []) if is_own else _of_torch(optimizer, model)
    spec = chip if isinstance(chip, SocSpec) else load_chip(str(chip))
    precision = Precision.of(dtype, dtypes, loss_scale, master)
    graph, _ = graph_of(model, loss, *batch)
    check_together(*((optimizer.check,) if is_own else ()), precision.check, of=graph)
    if not is_own:
        graph.trained = tuple(name for name in graph.trained if name in learning)

    def evaluated() -> tuple[Graph, tuple[str, ...]]:
        was_training = {module: module.training for module in model.modules()}
        model.eval()
        try:
            return graph_of(model, loss, *batch)
        finally:
            for module, mode in was_training.items():
                module.training = mode

    how: dict[str, Any] = {"accumulate": accumulate, "mean": mean, "cores": cores, "tuned": tuned}
    how |= {"precision": precision, "engine": engine, "progress": progress}
    return Deployed(graph, optimizer, spec, evaluated, **how)


def _of_torch(optimizer: Any, model: Any) -> tuple[Optimizer, list[str]]:
    """An optimiser of torch.optim as ours, and the names of the parameters that it has.

    raises    TypeError for anything else; DeployError for one that there is no kernel for
    """
    import torch

    from trainlib.deploy.torch_optimizer import optimizer_of

    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            f"optimizer: {kind_of(optimizer)}; it is a SGD, Adam or AdamW of trainlib.deploy or "
            f"torch.optim"
        )
    return optimizer_of(optimizer, model)


def _check(batch: Any, loss: Any) -> None:
    if not isinstance(batch, (tuple, list)):
        raise TypeError(f"batch: {kind_of(batch)}; it is (x, target)")
    if len(batch) != 2:
        raise DeployError(f"batch: {len(batch)} tensors; it is (x, target)")
    if loss is not None and not callable(loss):
        raise TypeError(
            f"loss: {loss!r}; it is a function of (output, target), such as "
            f"torch.nn.functional.cross_entropy"
        )

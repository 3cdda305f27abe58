"""A run of a training step's program: batches in; losses, weights and gradients out."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from soc.exchange import Exchange
from soc.prelude.counters import CAUSES, COUNT, COUNTS, REGIONS
from soc.result import RunResult
from trainlib.deploy.finite import as_array, check_input
from trainlib.deploy.graph.sequences import DEFAULT_IGNORED
from trainlib.deploy.graph.values import DeployError, Graph, kind_of
from trainlib.deploy.handover import NEXT
from trainlib.deploy.program import Built
from trainlib.deploy.schedule import Schedule
from trainlib.primitive.element import HALVES
from trainlib.primitive.tensor import Arrays

NUMBERED = {"cross_entropy_loss": ("t", "x"), "take": ("index", "table")}
"""Operators that take numbers: the operand that has them, and the one that says how many."""
DMA = ("dma_in", "dma_out", "dma_wait")


@dataclass(frozen=True)
class LayerStep:
    """A layer's part of a step: its forward or backward pass, or its update.

    cycles          of the slowest core, in all batches of the step
    instructions    of all cores
    stalls          cycles by cause, of all cores
    """

    layer: str
    step: str
    cycles: int
    instructions: int
    stalls: Mapping[str, int]


@dataclass(frozen=True)
class BatchReport:
    """A batch on the chip.

    cycles    from hand-over to hand-over, updates included where the batch ends a step
    layers    in the order of the program
    """

    cycles: int
    layers: tuple[LayerStep, ...]


@dataclass(frozen=True)
class Report:
    """A whole run.

    cycles    of all batches, from the first hand-over to the last
    """

    batches: tuple[BatchReport, ...]
    result: RunResult = field(repr=False)

    @property
    def cycles(self) -> int:
        """Cycles of all batches."""
        return sum(batch.cycles for batch in self.batches)

    @property
    def layers(self) -> tuple[LayerStep, ...]:
        """Layers, each with the sums of all batches."""
        found: dict[tuple[str, str], list[LayerStep]] = {}
        for batch in self.batches:
            for layer in batch.layers:
                found.setdefault((layer.layer, layer.step), []).append(layer)
        return tuple(
            LayerStep(
                *key,
                sum(part.cycles for part in parts),
                sum(part.instructions for part in parts),
                dict(sum((Counter(part.stalls) for part in parts), Counter())),
            )
            for key, parts in found.items()
        )


class Running:
    """A program that waits for its next batch."""

    def __init__(
        self,
        built: Built,
        *,
        engine: str = "compiled",
        on_console: Callable[[str], None] | None = None,
        progress: Callable = nullcontext,
    ) -> None:
        self.built = built
        how: dict[str, Any] = {"on_console": on_console, "progress": progress}
        self.exchange = Exchange(built.program, built.chip, engine=engine, **how)
        self.batches: list[BatchReport] = []
        self._wait()
        arrays = built.schedule.graph.arrays
        self.write({name: arrays[name] for name in built.homes if name in arrays})
        self._cycle, self._regions = self.exchange.cycle, self._seen()

    def write(self, arrays: Mapping[str, Any]) -> None:
        """Let values hold these arrays.

        raises    DeployError for a name that there is not, a shape or a type
        """
        for name, array in arrays.items():
            if name not in self.built.addresses:
                known = ", ".join(self.built.schedule.inputs)
                raise DeployError(f"{name}: no such value; the inputs are {known}")
            address, data = self.built.bytes_of(name, array)
            self.exchange.write(address, data)
            self._write_halves(name, data)

    def _write_halves(self, name: str, data: bytes) -> None:
        """Let what an update keeps of a parameter in halves be the same."""
        values = self.built.schedule.graph.values
        for half in HALVES:
            copy = f"{name}.{half.name}"
            if copy in values and values[copy].role == "state":
                given = np.frombuffer(data, np.float32).reshape(values[copy].shape)
                self.exchange.write(*self.built.bytes_of(copy, given))

    def batch(self, arrays: Mapping[str, Any]) -> None:
        """Let it compute a batch.

        raises    DeployError if the program goes wrong
        """
        self.write(arrays)
        self._wait()
        cycle, regions = self.exchange.cycle, self._seen()
        layers = _layers(self.built.program.regions, self._regions, regions)
        self.batches.append(BatchReport(cycle - self._cycle, layers))
        self._cycle, self._regions = cycle, regions

    def read(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """What values hold."""
        return {name: self.built.array_of(name, self.exchange.read) for name in names}

    def report(self) -> Report:
        """What the run tells: its last act."""
        return Report(tuple(self.batches), self.exchange.result())

    def _wait(self) -> None:
        end = self.exchange.go_on()
        if (end.reason, end.code) != ("exit", NEXT):
            reason = end.message or f"{end.reason} with code {end.code}"
            raise DeployError(f"the program did not come to its next batch: {reason}")

    def _seen(self) -> np.ndarray:
        return self.exchange.chip.regions.copy()


def _layers(
    names: Mapping[int, str], before: np.ndarray, after: np.ndarray
) -> tuple[LayerStep, ...]:
    """What harts did in regions between two moments."""
    shape = (-1, REGIONS)
    cycles = (after["cycles"] - before["cycles"]).reshape(shape)
    totals = (after["total"] - before["total"]).reshape(*shape, after["total"].shape[-1])
    layers = []
    for number, name in names.items():
        layer, _, step = name.rpartition(" ")
        if step not in ("forward", "backward", "update") or not cycles[:, number].any():
            continue
        counts = totals[:, number].sum(axis=0)
        causes = {c: int(counts[COUNTS.index(c)]) for c in CAUSES if counts[COUNTS.index(c)]}
        slowest = int(cycles[:, number].max())
        layers.append(LayerStep(layer, step, slowest, int(counts[COUNT.instructions]), causes))
    return tuple(layers)


def inputs_of(schedule: Schedule, batch: Sequence[Any]) -> Arrays:
    """A batch by the names of a schedule's inputs.

    raises    DeployError if it is no tuple of so many arrays, or numbers are out of range
    """
    if not isinstance(batch, (tuple, list)):
        takes = ", ".join(schedule.inputs)
        raise DeployError(f"a batch is {kind_of(batch)}; it is a tuple: ({takes})")
    names, parts = schedule.inputs, list(_flat(batch))
    if len(parts) != len(names):
        raise DeployError(f"a batch of {len(parts)} arrays; the network takes {', '.join(names)}")
    arrays = dict(zip(names, parts, strict=True))
    for name, array in arrays.items():
        check_input(name, array)
        if name in schedule.graph.truths:
            _check_truths(name, array)
    for name, numbers in _numbers(schedule.graph).items():
        numbers.check(name, arrays[name])
    return arrays


def _flat(batch: Any) -> Iterator[Any]:
    """The arrays of tuples and dicts within each other; of a dict in the order of its keys."""
    parts = [batch[key] for key in sorted(batch, key=str)] if isinstance(batch, Mapping) else batch
    for part in parts:
        if isinstance(part, (tuple, list, Mapping)):
            yield from _flat(part)
        else:
            yield part


def _check_truths(name: str, array: Any) -> None:
    """raises    DeployError for what is neither true nor false"""
    given = as_array(array)
    if (is_wrong := (given != 0) & (given != 1)).any():
        place = [int(n) for n in np.argwhere(is_wrong)[0]]
        wrong = given[tuple(place)]
        raise DeployError(f"{name}: element {place} is {wrong}; it is a mask: True or False")


@dataclass(frozen=True)
class _Numbers:
    """What an input of numbers may have: 0 to below the count, and what is ignored."""

    count: int
    ignored: int | None = None

    def check(self, name: str, array: Any) -> None:
        """raises    DeployError for another number"""
        given = as_array(array)
        if given.dtype.kind not in "iu":
            return
        is_wrong = (given < 0) | (given >= self.count)
        if self.ignored is not None:
            is_wrong &= given != self.ignored
        if not is_wrong.any():
            return
        place = [int(n) for n in np.argwhere(is_wrong)[0]]
        wrong = int(given[tuple(place)])
        rule = f"it is a number from 0 to {self.count - 1}"
        if self.ignored is not None:
            rule += f", or {self.ignored}, which is ignored"
        elif wrong == DEFAULT_IGNORED:
            rule += (
                "; PyTorch's losses ignore -100 by default: give the loss another ignore_index, "
                "such as -1, and targets that number"
            )
        raise DeployError(f"{name}: element {place} is {wrong}; {rule}")


def _numbers(graph: Graph) -> dict[str, _Numbers]:
    """Inputs that are numbers of classes, or of rows: what they may have."""
    replaced = {n.outputs["y"]: n for n in graph.nodes if n.op == "replace_label"}
    found: dict[str, _Numbers] = {}
    for node in graph.nodes:
        operand, table = NUMBERED.get(node.op, ("", ""))
        if operand not in node.inputs:
            continue
        shape, name = graph.values[node.inputs[table]].shape, graph.root(node.inputs[operand])
        numbers = _Numbers(shape[0] if table == "table" else shape[-1])
        if name in replaced:  # what is ignored takes the last row
            ignoring = replaced[name]
            name, how = graph.root(ignoring.inputs["x"]), ignoring.attributes
            numbers = _Numbers(how["new"], how["old"])
        if graph.values[name].role == "input" and graph.values[name].dtype == "int32":
            found[name] = min(numbers, found.get(name, numbers), key=lambda each: each.count)
    return found

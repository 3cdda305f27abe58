"""Primitives as programs: tensors to L2, run, tensors back, compared with the reference.

    outputs, report = launch("matmul_f32", {"n": 32, "k": 32, "m": 32}, inputs={"A": a, "B": b})
    report.cycles, report.macs_per_cycle, report.stalls, report.dma_overlap, report.is_correct

or step by step:

    built = program("matmul_f32", {"n": 32, "k": 32, "m": 32}, load_chip("pulp"))
    report = built.report(run_program(built.program, "pulp"))
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from firmware.builder import CodeTooLarge, KernelError, python_listing
from firmware.runtime import CODE, new_kernel, team_of
from isa.declare import Isa
from isa.program import Program
from soc.chip.spec import SocSpec, load_chip
from soc.config.validation import Layer, validated
from soc.host.collector import paused_collector
from soc.result import RunResult
from soc.run import run_program
from trainlib.primitive.arguments import CommonArguments
from trainlib.primitive.element import element_of
from trainlib.primitive.operator import Family
from trainlib.primitive.tensor import Tensor
from trainlib.registry import family_of
from trainlib.report import Report
from trainlib.tensors import as_torch, is_torch, values_of
from trainlib.tiling.dispatch import emit_from_l2

BURST = 256  # bytes that the DMA fetches at a time, as they lie in L2
SLACK = 4096  # bytes more of code, where constants grow with the addresses of data


@dataclass(frozen=True)
class KernelProgram:
    """A primitive's program with its data.

    isa        of the chip that it is for
    inputs     arrays in L2, by name
    outputs    address in L2 and tensor, by name
    between    addresses and bytes of buffers in L2 that it leaves undefined
    """

    program: Program
    family: Family
    arguments: CommonArguments
    isa: Isa
    inputs: dict[str, np.ndarray]
    outputs: dict[str, tuple[int, Tensor]]
    between: tuple[tuple[int, int], ...] = ()

    def listing(self) -> str:
        """Its instructions, and the Python that emitted them."""
        return python_listing(self.program, self.isa)

    @property
    def regions(self) -> Mapping[int, str]:
        """Names of what it measures, by number."""
        return self.program.regions

    def read(self, result: RunResult) -> dict[str, np.ndarray]:
        """The outputs that a run has left in L2."""
        return {
            name: np.frombuffer(result.read(address, t.size), t.dtype).reshape(t.shape)
            for name, (address, t) in self.outputs.items()
        }

    def report(self, result: RunResult) -> Report:
        """What a run of this program tells."""
        with np.errstate(all="ignore"):  # data may be infinite, or NaN
            expected = self.family.reference(self.arguments, self.inputs)
        return Report(
            result,
            self.family.macs(self.arguments),
            self.read(result),
            expected,
            self._stray_writes(result),
            self.arguments.warm,
            element_of(self.family.name).lanes,
            self.arguments.cores,
        )

    def _stray_writes(self, result: RunResult) -> list[int]:
        strays: list[int] = []
        for segment in self.program.segments:
            before = np.frombuffer(segment.data, np.uint8)
            after = np.frombuffer(result.read(segment.address, len(before)), np.uint8)
            changed = segment.address + _differing(before, after)
            for start, size in self._writable(result.spec):
                changed = changed[(changed < start) | (start + size <= changed)]
            strays += changed.tolist()
        return strays

    def _writable(self, chip: SocSpec) -> list[tuple[int, int]]:
        """Addresses and sizes of the outputs and of all buffers between."""
        in_l1 = range(chip.l1.base, chip.l1.base + chip.l1.size)
        return [
            *((address, tensor.size) for address, tensor in self.outputs.values()),
            *self.between,
            *((s.address, s.size) for s in self.program.symbols if s.address in in_l1),
        ]


def _differing(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the indices of bytes that differ: most words of 8 do not."""
    whole = before.size // 8 * 8
    words = np.flatnonzero(before[:whole].view(np.uint64) != after[:whole].view(np.uint64))
    indices = np.concatenate(
        (words[:, None] * 8 + np.arange(8), np.arange(whole, before.size)), axis=None
    )
    return indices[before[indices] != after[indices]]


def checked(
    kernel: str, arguments: Mapping[str, Any], source: str | None = None
) -> CommonArguments:
    """A primitive's arguments, those of NumPy's types too.

    source    where they were written, for messages

    raises    ConfigError for an unknown kernel or bad arguments, with every mistake
    """
    family = family_of(kernel, source)
    layer = Layer(source or kernel, _plain(arguments), prefix="program.args." if source else "")
    return validated(family.arguments, [layer])


def _plain(value: Any) -> Any:
    """What NumPy has of Python's own types."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


def program(
    kernel: str,
    arguments: Mapping[str, Any],
    chip: SocSpec | str | PathLike = "pulp",
    inputs: Mapping[str, Any] | None = None,
    *,
    source: str | None = None,
    guard: int = 0,
    code: int | None = None,
) -> KernelProgram:
    """Build a primitive's program with its data.

    inputs    arrays or torch tensors by name; None: random, from the seed
    source    where the arguments were written, for messages
    guard     bytes around every buffer; if not 0, they and all that is not written yet are poisoned
    code      bytes of L2 for code; None: what there usually is, or what it takes if that is more

    raises    ConfigError for an unknown kernel or bad arguments, with every mistake; ValueError for
              inputs of other shapes or types; KernelError for a point that cannot be built
    """
    family, point = family_of(kernel, source), checked(kernel, arguments, source)
    if guard < 0:
        raise ValueError(f"{kernel}: guard {guard}; it is a number of bytes from 0 on")
    with _named(kernel):
        of = family, point, _chip(chip), inputs, guard
        if code is not None:
            return _built(*of, code)
        try:
            return _built(*of, CODE)
        except CodeTooLarge as error:
            return _built(*of, error.needed + SLACK)


def _chip(chip: SocSpec | str | PathLike) -> SocSpec:
    return chip if isinstance(chip, SocSpec) else load_chip(str(chip))


@contextmanager
def _named(kernel: str) -> Iterator[None]:
    """Begin messages with the primitive that is wanted, also those of what it is made of."""
    try:
        yield
    except KernelError as error:
        if str(error).partition(":")[0] in kernel:
            raise
        raise KernelError(f"{kernel}: {error}") from error


@paused_collector()
def _built(
    family: Family,
    point: CommonArguments,
    spec: SocSpec,
    inputs: Mapping[str, Any] | None,
    guard: int,
    code: int,
) -> KernelProgram:
    given, point = point, point.on(spec.cores)
    cores = point.likely_cores
    if spec.dma.ports < cores <= spec.cores:
        raise KernelError(
            f"{family.name}: {cores} cores, of which dma.ports = {spec.dma.ports} can start the "
            f"DMA; set dma.ports to {cores}, or cores to {spec.dma.ports}"
        )
    tensors = {n: t for n, t in family.tensors(point).items() if t.role != "scratch"}
    k = new_kernel(spec, family.name, guard, code)
    l2 = {name: k.buffer(k.l2, name, tensor.size, BURST) for name, tensor in tensors.items()}
    with team_of(k, spec, cores) as team:
        emit_from_l2(k, team, family, point, l2)
        if family.emit_end:
            family.emit_end(k, team, point, l2)
    values = values_of(family, point, inputs)
    for name, array in values.items():
        k.put(l2[name], array.tobytes())
    between = tuple((symbol.address, symbol.size) for symbol in k.undefined)
    if guard:
        k.poison()
    outputs = {name: (l2[name], t) for name, t in tensors.items() if t.role != "in"}
    parts = values, outputs, between
    return KernelProgram(
        replace(k.build(), origin=_origin(family, given)), family, point, k.isa, *parts
    )


def _origin(family: Family, point: CommonArguments) -> bytes:
    """What trainlib.rebuild builds it of again."""
    arguments = point.model_dump(mode="json", exclude_unset=True)
    return json.dumps({"kernel": family.name, "arguments": arguments}).encode()


def launch(
    kernel: str,
    arguments: Mapping[str, Any],
    chip: SocSpec | str | PathLike = "pulp",
    inputs: Mapping[str, Any] | None = None,
    *,
    guard: int = 0,
    code: int | None = None,
    **how: Any,
) -> tuple[dict[str, Any], Report]:
    """Build a primitive's program and run it; return its outputs by name, and the report.

    kernel       by name: `pulpsim kernels` lists them
    arguments    of it: {"n": 64, "k": 64, "m": 64}
    chip         a name, a chip file, or what load_chip returns
    inputs       arrays or torch tensors by name, row-major, float32 or int32, of the shapes that
                 the kernel's page says; None: random, from the argument `seed`
    guard, code  bytes, see `program`
    how          engine, max_cycles, trace, ...: see run_program

    The outputs are arrays, or torch tensors if an input was one. The report has cycles of the
    computation, multiply-adds per cycle, stalls by cause, regions, and whether every output is as
    close to float64 as it must be.

    raises    as program and run_program do

        outputs, report = launch("matmul_f32", {"n": 32, "k": 32, "m": 32}, inputs={"A": a, "B": b})
        outputs["C"], report.cycles, report.is_correct
    """
    spec = _chip(chip)
    built = program(kernel, arguments, spec, inputs, guard=guard, code=code)
    report = built.report(run_program(built.program, spec, **how))
    outputs = dict(report.outputs)
    if any(is_torch(value) for value in (inputs or {}).values()):
        outputs = as_torch(outputs)
    return outputs, report

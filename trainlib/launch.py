"""Programs of kernels: tensors to L2, run, tensors back, compared with the reference.

built = program("matmul_f32", {"n": 32, "k": 32, "m": 32}, load_chip("pulp"))
result = built.named(run_program(built.program, "pulp"))
built.check(result)         {"macs": 32768, "macs_per_cycle": 5.0, ..., "correct": True}
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import prod
from typing import Any

import numpy as np
from pydantic import BaseModel

from firmware.builder import python_listing
from firmware.runtime import new_kernel
from isa.declare import Isa
from isa.program import Program
from soc.result import RunResult
from soc.run import run_program
from soc.spec import SocSpec, load_chip
from soc.toml_file import ConfigError, Layer, validated
from trainlib.kernels import Family
from trainlib.matmul_program import MATMUL_F32

KERNELS = {family.name: family for family in (MATMUL_F32,)}
"""Kernels by name: what `kernel` in a config's [program] can say."""

FLOAT = 4  # bytes
MEASURED = "compute"  # region whose cycles count for macs_per_cycle


@dataclass(frozen=True)
class KernelProgram:
    """A kernel's program with its data.

    isa        of the chip that it is for
    regions    names of what it measures, by number
    inputs     float32 arrays in L2, by name
    outputs    address and shape in L2, by name
    """

    program: Program
    family: Family
    arguments: BaseModel
    isa: Isa
    regions: dict[int, str]
    inputs: dict[str, np.ndarray]
    outputs: dict[str, tuple[int, tuple[int, ...]]]

    def listing(self) -> str:
        """Its instructions, and the Python that emitted them."""
        return python_listing(self.program, self.isa)

    def named(self, result: RunResult) -> RunResult:
        """The result of a run of this program, its regions with their names."""
        return replace(result, region_names=self.regions)

    def read(self, result: RunResult) -> dict[str, np.ndarray]:
        """The outputs that a run has left in L2."""
        return {
            name: np.frombuffer(result.read(address, FLOAT * prod(shape)), "<f4").reshape(shape)
            for name, (address, shape) in self.outputs.items()
        }

    def check(self, result: RunResult) -> dict[str, Any]:
        """What the JSON of a run says under "program".

        macs              multiply-adds of the kernel
        macs_per_cycle    over the slowest core's cycles of the computation, barrier included
        max_error         largest distance from the float64 reference; None: not even finite
        correct           did it exit with 0, every output as close to the reference as it must be?

        NaN and infinity are correct where the reference has them.
        """
        values, errors = self.read(result), []
        is_correct = result.exit.reason == "exit" and result.exit.code == 0
        for name, (exact, bound) in self.family.reference(self.inputs).items():
            value = values[name]
            is_same = (value == exact) | np.isnan(value) & np.isnan(exact)
            with np.errstate(invalid="ignore"):
                error = np.where(is_same, 0.0, np.abs(value - exact))
            is_correct &= bool((is_same | (error <= bound)).all())
            errors.append(float(error.max()))
        cycles = max(_cycles(result, self.regions), default=0)
        macs = self.family.macs(self.arguments)
        return {
            "macs": macs,
            "macs_per_cycle": macs / cycles if cycles else None,
            "max_error": max(errors) if np.isfinite(errors).all() else None,
            "correct": is_correct,
        }


def _cycles(result: RunResult, regions: Mapping[int, str]) -> list[int]:
    """Cycles of the measured region, of each hart that went through it."""
    return [
        region["cycles"]
        for hart in result.to_json()["harts"]
        for region in hart["regions"]
        if regions.get(region["id"]) == MEASURED
    ]


def program(
    kernel: str,
    arguments: Mapping[str, Any],
    chip: SocSpec | str = "pulp",
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    source: str | None = None,
) -> KernelProgram:
    """Build a kernel's program with its data.

    inputs    arrays by name; None: random numbers, normally distributed, from the seed
    source    where the arguments were written, for messages

    raises    ConfigError for an unknown kernel or bad arguments, with every mistake; ValueError for
              inputs of other shapes; KernelError for a point that cannot be built
    """
    family = _family(kernel)
    layer = Layer(source or kernel, dict(arguments), prefix="program.args." if source else "")
    point = validated(family.arguments, [layer])
    spec = load_chip(chip) if isinstance(chip, str) else chip
    shapes = family.inputs(point) | family.outputs(point)
    k = new_kernel(spec, kernel)
    l2 = {name: k.buffer(k.l2, name, FLOAT * prod(shape)) for name, shape in shapes.items()}
    family.emit(k, spec, point, l2)
    values = _inputs(family, point, inputs)
    for name, array in values.items():
        k.put(l2[name], array.tobytes())
    outputs = {name: (l2[name], shape) for name, shape in family.outputs(point).items()}
    return KernelProgram(k.build(), family, point, k.isa, dict(k.regions), values, outputs)


def launch(
    kernel: str,
    arguments: Mapping[str, Any],
    chip: SocSpec | str = "pulp",
    inputs: Mapping[str, np.ndarray] | None = None,
    **how: Any,
) -> tuple[RunResult, KernelProgram]:
    """Build a kernel's program and run it; `how` goes to soc.run.run_program.

    raises    as program and run_program do
    """
    built = program(kernel, arguments, chip, inputs)
    return built.named(run_program(built.program, chip, **how)), built


def _family(kernel: str) -> Family:
    if kernel in KERNELS:
        return KERNELS[kernel]
    near = get_close_matches(kernel, KERNELS, 1)
    known = f"did you mean {near[0]}?" if near else f"the kernels are {', '.join(KERNELS)}"
    raise ConfigError([f"kernel {kernel!r}: no such kernel; {known}"])


def _inputs(
    family: Family, point: Any, given: Mapping[str, np.ndarray] | None
) -> dict[str, np.ndarray]:
    shapes = family.inputs(point)
    if given is None:
        random = np.random.default_rng(point.seed)
        return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    for name in {**shapes, **given}:
        have = np.shape(given[name]) if name in given else None
        if have != shapes.get(name):
            raise ValueError(
                f"{family.name}: {name} has shape {have}; the arguments say {shapes.get(name)}"
            )
    return {name: np.ascontiguousarray(given[name], np.float32) for name in shapes}

"""Kernels of multiply-adds at shapes drawn at random, each beside a lower bound of its cycles.

The list is the same every time: it comes from a seed. Odd sizes are as likely as others. What is
drawn lies in L1, with warm caches, or is computed by tiles from L2, with cold ones, of which all
cycles between L2 and L2 count. The bound is the longer of what the DMA takes for the bytes, alone
on the chip, see benchmarks.copies, and the cores for multiply-adds with the loads and stores of the
best blocking, see benchmarks.loads.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from autotuner.lower_bound import moved
from autotuner.measure import layer_cycles
from autotuner.space import Space
from benchmarks.copies import copies_bound
from benchmarks.figure import Figure
from benchmarks.kernels import Case, measured
from benchmarks.loads import loads_bound
from firmware.builder import KernelError
from soc.chip.spec import SocSpec, load_chip
from soc.config.toml import ConfigError

COUNT = 60
SEED = 60
LEAST_WORK, MOST_WORK = 20_000, 2_000_000  # multiply-adds
LEAST, TYPICAL = 0.7, 0.9  # of the bound: of each shape, and of the median
STEPS = ("fw", "wg", "ig")
KERNELS = (
    "matmul_f32",
    "matmul_batched_f32",
    *(f"{kind}_{step}_f32" for kind in ("linear", "pwconv2d") for step in STEPS),
    *(f"{kind}_{step}_f32" for kind in ("conv2d", "dwconv2d", "tconv2d") for step in STEPS),
)


def drawn(count: int = COUNT, seed: int = SEED) -> Iterator[tuple[Case, bool]]:
    """Cases, the families in turn, and whether they are computed from L2."""
    numbers, chip, found = np.random.default_rng(seed), load_chip("pulp"), 0
    while found < count:
        kernel = KERNELS[found % len(KERNELS)]
        arguments, is_from_l2 = _arguments(kernel, numbers), bool(numbers.integers(2))
        try:
            space = Space.of(kernel, arguments | ({"tile": {}} if is_from_l2 else {}), chip)
        except (ConfigError, KernelError):  # no such shape, or it does not fit
            continue
        is_wanted = LEAST_WORK < space.layer.macs <= MOST_WORK
        if is_wanted and (is_from_l2 or space.is_resident):
            found += 1
            yield _case(kernel, arguments, is_from_l2), is_from_l2


def _case(kernel: str, arguments: Mapping[str, Any], is_from_l2: bool) -> Case:
    sizes = " ".join(f"{name} {value}" for name, value in arguments.items())
    of = f"{kernel.removesuffix('_f32')} {sizes}, {'L2' if is_from_l2 else 'L1'}"
    return Case(of, kernel, dict(arguments) | ({"tile": {}} if is_from_l2 else {}))


def _arguments(kernel: str, numbers: np.random.Generator) -> dict[str, int]:
    def size(most: int) -> int:
        """As likely between 4 and 8 as between 8 and 16."""
        return int(2 ** numbers.uniform(2, np.log2(most)))

    if kernel.startswith("matmul"):
        sizes = {name: size(128) for name in "nkm"}
        return sizes | ({"batch": size(8)} if "batched" in kernel else {})
    if kernel.startswith("linear"):
        batch = int(numbers.choice([1, 1, size(32)]))
        return {"inputs": size(512), "outputs": size(256), "batch": batch}
    of = {"inputs": size(64), "height": size(48), "width": size(48)}
    if not kernel.startswith("dwconv2d"):
        of["outputs"] = size(64)
    if kernel.startswith("pwconv2d"):
        return of
    of["kernel"] = int(numbers.choice([1, 2, 3, 3, 3, 5]))
    of["padding"] = int(numbers.integers(of["kernel"]))
    return of | {"stride": int(numbers.choice([1, 1, 2]))}


def shapes(chip: SocSpec | str = "pulp", count: int = COUNT, seed: int = SEED) -> Iterator[Figure]:
    """The bound of each shape, over its cycles; and the median."""
    spec = chip if isinstance(chip, SocSpec) else load_chip(chip)
    parts = []
    for case, is_from_l2 in drawn(count, seed):
        space = Space.of(case.kernel, case.arguments, spec)
        report = measured(case, spec, warm=not is_from_l2)
        least = loads_bound(case.kernel, space.layer.checked({}), space.layer.macs, spec.cores)
        cycles = layer_cycles(report.result) if is_from_l2 else report.cycles
        if is_from_l2:
            copies = moved(space, replace(space.default(), is_phased=True))
            least = max(least, copies_bound(*copies, spec))
        parts.append(least / cycles)
        yield Figure(case.name, cycles, "cycles", least, parts[-1], least=LEAST)
    yield Figure("median", median(parts), "", least=TYPICAL)

"""Kernels in multiply-adds per cycle: cold and warm caches, beside what bounds them.

Bounds: 4 x 4 sums in registers take 8 loads for 16 multiply-adds, 8 x 16 / 24 = 5.33 a cycle on
eight cores; the DMA brings 8 bytes a cycle from L2.
Published: the peak of PULP-TrainLib, SAMOS 2022.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.figure import Figure
from soc.spec import SocSpec
from trainlib.launch import launch
from trainlib.registry import family_of
from trainlib.report import Report

BLOCKED = 16 / 3
BEAT = 8  # bytes
PEAK = 4.39
EFFICIENCY = 0.93
PART = 0.9  # of the bound, through tiles


@dataclass(frozen=True)
class Case:
    """A kernel at a shape.

    least        multiply-adds per cycle, warm; None: the part of the bound
    has_tiles    do its tensors lie in L2?
    """

    name: str
    kernel: str
    arguments: Mapping[str, Any]
    least: float | None = None
    published: float | None = None
    has_tiles: bool = True
    scales: bool = True


def _matmul(n: int, k: int, m: int, least: float, **more: Any) -> Case:
    arguments = {"n": n, "k": k, "m": m}
    return Case(f"matmul {n}x{k}x{m}", "matmul_f32", arguments, least, has_tiles=False, **more)


CONVOLUTION = {"inputs": 16, "outputs": 32, "height": 32, "width": 32, "kernel": 3, "padding": 1}
POINTWISE = {"inputs": 64, "outputs": 64, "height": 25, "width": 5, "tile": {}}
DEPTHWISE = {"inputs": 64, "height": 25, "width": 5, "kernel": 3, "padding": 1, "tile": {}}
LINEAR = {"inputs": 640, "outputs": 128, "tile": {}}
STEPS = {"fw": "forward", "wg": "weights", "ig": "input"}
CASES = (
    _matmul(64, 64, 64, 4.9, published=PEAK),
    _matmul(32, 32, 32, 4.8, published=PEAK),
    _matmul(25, 36, 13, 3.4),
    *(Case(f"conv2d 16->32, {what}", f"conv2d_{s}_f32", CONVOLUTION) for s, what in STEPS.items()),
    Case("pointwise 64->64", "pwconv2d_fw_f32", POINTWISE),
    Case("depthwise 64", "dwconv2d_fw_f32", DEPTHWISE, 2.5),
    Case("linear 640->128", "linear_fw_f32", LINEAR, scales=False),
)


def measured(case: Case, chip: SocSpec | str, **more: Any) -> Report:
    """Run a case.

    raises    RuntimeError if its result is wrong
    """
    _, report = launch(case.kernel, {**case.arguments, **more}, chip)
    if not report.is_correct:
        raise RuntimeError(f"{case.name}: its result is wrong")
    return report


def bound(case: Case) -> float:
    """Multiply-adds per cycle at most: of the blocking, and of the DMA where it takes part."""
    if not case.has_tiles:
        return BLOCKED
    family = family_of(case.kernel)
    point = family.arguments.model_validate(dict(case.arguments))
    read = sum(tensor.size for tensor in family.tensors(point).values() if tensor.role == "in")
    return min(BLOCKED, family.macs(point) / (read / BEAT))


def kernels(chip: SocSpec | str = "pulp", cases: tuple[Case, ...] = CASES) -> Iterator[Figure]:
    """Each kernel, cold and warm; eight cores beside one."""
    for case in cases:
        cold, warm = measured(case, chip), measured(case, chip, warm=True)
        top, unit = bound(case), "MAC/cycle"
        rates = [report.macs_per_cycle or 0.0 for report in (cold, warm)]
        yield Figure(f"{case.name}, cold", rates[0], unit, top, published=case.published)
        ratio = None if case.least else rates[1] / top
        least = case.least or PART
        how = {"ratio": ratio, "least": least, "published": case.published}
        yield Figure(f"{case.name}, warm", rates[1], unit, top, **how)
        if case.scales:
            alone = measured(case, chip, warm=True, cores=1)
            part = alone.cycles / warm.cycles / 8
            yield Figure(f"{case.name}, eight cores over one", part, "", least=EFFICIENCY)

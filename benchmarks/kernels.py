"""Kernels in multiply-adds per cycle: cold and warm caches, beside what bounds them.

Bounds: 4 x 4 sums in registers take 8 loads for 16 multiply-adds, 8 x 16 / 24 = 5.33 a cycle on
eight cores, and twice as many of halves, of which each instruction has two; the DMA brings 8 bytes
a cycle from L2. A loop written by hand for FP16 reaches 9.10 on RI5CY's RTL at 32 x 32 x 32.
Published: the peak of PULP-TrainLib, SAMOS 2022.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.figure import Figure
from soc.chip.spec import SocSpec
from trainlib.launch import launch
from trainlib.registry import family_of
from trainlib.report import Report

BLOCKED = 16 / 3
PAIRED = 2 * BLOCKED
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


def _matmul(n: int, k: int, m: int, least: float, element: str = "f32", **more: Any) -> Case:
    arguments = {"n": n, "k": k, "m": m}
    name = f"matmul {n}x{k}x{m}" + ("" if element == "f32" else f" {element}")
    return Case(name, f"matmul_{element}", arguments, least, has_tiles=False, **more)


def _tiled(element: str) -> Case:
    """A product that does not fit L1."""
    arguments = {"n": 200, "k": 160, "m": 200}
    return Case(f"matmul 200x160x200 {element}, tiled", f"matmul_{element}", arguments)


CONVOLUTION = {"inputs": 16, "outputs": 32, "height": 32, "width": 32, "kernel": 3, "padding": 1}
POINTWISE = {"inputs": 64, "outputs": 64, "height": 25, "width": 5, "tile": {}}
DEPTHWISE = {"inputs": 64, "height": 25, "width": 5, "kernel": 3, "padding": 1, "tile": {}}
SQUARES = DEPTHWISE | {"inputs": 32, "height": 32, "width": 32}
LINEAR = {"inputs": 640, "outputs": 128, "tile": {}}
HALVES = ("f16", "bf16")
STEPS = {"fw": "forward", "wg": "weights", "ig": "input"}
CASES = (
    _matmul(64, 64, 64, 4.9, published=PEAK),
    _matmul(32, 32, 32, 4.8, published=PEAK),
    _matmul(25, 36, 13, 3.4),
    *(_matmul(64, 64, 64, 10.0, half) for half in HALVES),
    *(_matmul(32, 32, 32, 9.1, half) for half in HALVES),
    *(_matmul(25, 36, 13, 6.0, half, scales=False) for half in HALVES),
    *(_tiled(half) for half in HALVES),
    *(Case(f"conv2d 16->32, {what}", f"conv2d_{s}_f32", CONVOLUTION) for s, what in STEPS.items()),
    *(
        Case(f"conv2d 16->32 {half}, {what}", f"conv2d_{s}_{half}", CONVOLUTION, least)
        for half in HALVES
        for (s, what), least in zip(STEPS.items(), (9.5, 8.5, 9.5), strict=True)
    ),
    Case("pointwise 64->64", "pwconv2d_fw_f32", POINTWISE),
    *(
        Case(f"pointwise 64->64 {half}, {what}", f"pwconv2d_{s}_{half}", POINTWISE, 9.0)
        for half in HALVES
        for s, what in STEPS.items()
    ),
    Case("depthwise 64", "dwconv2d_fw_f32", DEPTHWISE, 2.5),
    *(Case(f"depthwise 64 {half}", f"dwconv2d_fw_{half}", DEPTHWISE, 8.96) for half in HALVES),
    Case("depthwise 32 x 32", "dwconv2d_fw_f32", SQUARES, 2.5),
    *(Case(f"depthwise 32 x 32 {half}", f"dwconv2d_fw_{half}", SQUARES, 6.27) for half in HALVES),
    Case("linear 640->128", "linear_fw_f32", LINEAR, scales=False),
)


FLAT = {"shape": [4096]}
PAIRWISE = 1.9  # times as fast as float32: two elements an instruction, and what begins a loop
MAPS: dict[str, tuple[Mapping[str, Any], float | None]] = {
    "relu_fw": (FLAT, PAIRWISE),
    "relu_bw": (FLAT, PAIRWISE),
    "add": ({"a": [4096]}, PAIRWISE),
    "multiply": ({"a": [4096]}, PAIRWISE),
    "residual_bw": (FLAT, PAIRWISE),
    "sgd": ({**FLAT, "lr": 0.1}, PAIRWISE),
    "accumulate": (FLAT, PAIRWISE),
    "transpose": ({"shape": [64, 64], "axes": [1, 0]}, None),
    "gelu_fw": (FLAT, None),
    "softmax_fw": ({"shape": [64, 64]}, None),
    "layernorm_fw": ({"rows": 64, "columns": 64}, None),
    "maxpool2d_fw": ({"c": 16, "h": 16, "w": 16, "kernel": 2}, None),
}
"""Kernels of elements, without multiply-adds: at a shape, and what halves are to gain at least."""


PARALLEL = 1.6
GAINS: tuple[tuple[str, str, Mapping[str, Any], float], ...] = tuple(
    (f"{name}, {what}", f"dwconv2d_{step}", shape, PARALLEL)
    for name, shape in (("depthwise 64", DEPTHWISE), ("depthwise 32 x 32", SQUARES))
    for step, what in STEPS.items()
)
"""Kernels whose halves are to be faster than float32 by a factor: name, stem, shape, at least."""


def measured(case: Case, chip: SocSpec | str, **more: Any) -> Report:
    """Run a case.

    raises    RuntimeError if its result is wrong
    """
    _, report = launch(case.kernel, {**case.arguments, **more}, chip)
    if not report.is_correct:
        raise RuntimeError(f"{case.name}: its result is wrong")
    return report


def multiply_adds(case: Case) -> int:
    """As published figures count them: those with padding, too."""
    arguments = dict(case.arguments)
    around = 2 * arguments.pop("padding", 0)
    arguments |= {name: arguments[name] + around for name in ("height", "width") if around}
    family = family_of(case.kernel)
    return family.macs(family.arguments.model_validate(arguments))


def bound(case: Case) -> float:
    """Multiply-adds per cycle at most: of the blocking, and of the DMA where it takes part."""
    blocked = PAIRED if case.kernel.endswith(HALVES) else BLOCKED
    if not case.has_tiles:
        return blocked
    family = family_of(case.kernel)
    point = family.arguments.model_validate(dict(case.arguments))
    read = sum(tensor.size for tensor in family.tensors(point).values() if tensor.role == "in")
    return min(blocked, multiply_adds(case) / (read / BEAT))


def kernels(
    chip: SocSpec | str = "pulp",
    cases: tuple[Case, ...] = CASES,
    maps: Mapping[str, tuple[Mapping[str, Any], float | None]] = MAPS,
    gains: tuple[tuple[str, str, Mapping[str, Any], float], ...] = GAINS,
) -> Iterator[Figure]:
    """Each kernel, cold and warm; eight cores beside one; and what halves gain over float32."""
    for case in cases:
        cold, warm = measured(case, chip), measured(case, chip, warm=True)
        top, unit = bound(case), "MAC/cycle"
        rates = [multiply_adds(case) / report.cycles for report in (cold, warm)]
        yield Figure(f"{case.name}, cold", rates[0], unit, top, published=case.published)
        ratio = None if case.least else rates[1] / top
        least = case.least or PART
        how = {"ratio": ratio, "least": least, "published": case.published}
        yield Figure(f"{case.name}, warm", rates[1], unit, top, **how)
        if case.scales:
            alone = measured(case, chip, warm=True, cores=1)
            part = alone.cycles / warm.cycles / 8
            yield Figure(f"{case.name}, eight cores over one", part, "", least=EFFICIENCY)
    for name, stem, shape, gain in (*gains, *((s, s, *how) for s, how in maps.items())):
        whole = measured(Case(name, f"{stem}_f32", shape), chip, warm=True).cycles
        for half in HALVES:
            own = measured(Case(name, f"{stem}_{half}", shape), chip, warm=True).cycles
            yield Figure(
                f"{name} {half}, float32's cycles over its own", whole / own, "", least=gain
            )

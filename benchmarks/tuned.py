"""What primitives choose untold beside what the tuner finds, and that beside the best there is.

The shapes are those of benchmarks.shapes, all of the chip's cores at work, caches cold, all of them
from L2 to L2. The spaces of which every point is measured are small enough for that.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from autotuner.measure import Measure
from autotuner.measurement_store import Database
from autotuner.search import exhaustive, guided
from autotuner.space import Space
from benchmarks.figure import Figure
from benchmarks.shapes import COUNT, drawn
from soc.chip.spec import load_chip

SIZES = 3  # of a tile's dimension, tried
FEW = 12, 2  # shapes and spaces without --long
UNTOLD = 1.08  # times the cycles of what is tuned, at most
SIMULATED = 0.15  # of a space's points, at most

POINTWISE = {"inputs": 16, "outputs": 16, "height": 8, "width": 8, "unroll": 1, "tile": {"ci": 16}}
DEPTHWISE = {"inputs": 16, "height": 12, "width": 12, "kernel": 3, "padding": 1, "buffers": 2}
SPACES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("linear_fw_f32", {"inputs": 40, "outputs": 24, "unroll": 1}),
    ("dwconv2d_ig_f32", {**DEPTHWISE, "is_turned": False}),
    ("linear_wg_f32", {"inputs": 128, "outputs": 128}),
    *((f"pwconv2d_{step}_f32", POINTWISE) for step in ("fw", "wg", "ig")),
)
"""Layers whose spaces have at most 2,000 points."""


def tuned(shapes: int = COUNT, spaces: int = len(SPACES)) -> Iterator[Figure]:
    """Cycles untold over those that guided finds; its own over those of the best of all points.

    shapes, spaces    the first so many
    """
    chip = load_chip("pulp")
    for case, _ in drawn(shapes):
        of = case.kernel, {**case.arguments, "tile": {}}
        space = Space.of(*of, chip, SIZES, (chip.cores,))
        measure = Measure(space.layer, chip, Database(":memory:"))
        best = guided(space, measure)[0].outcome.rank
        [own] = measure([space.default()])
        yield _over(f"{case.name}, untold", own.rank, best, UNTOLD)
    for kernel, arguments in SPACES[:spaces]:
        space = Space.of(kernel, arguments, chip, sizes=2, cores=(chip.cores,))
        measure = Measure(space.layer, chip, Database(":memory:"))
        best, simulated = guided(space, measure)[0].outcome.rank, measure.simulated
        least = exhaustive(space, measure)[0].outcome.rank
        name = f"{kernel}, {len(space)} points"
        yield _over(f"{name}, guided", best, least, 1.0)
        yield Figure(f"{name}, simulated", simulated / len(space), "", most=SIMULATED)


def _over(name: str, cycles: float, least: float, most: float) -> Figure:
    return Figure(name, cycles, "cycles", least, cycles / least, most=most)

"""Kernels at shapes where cycles are left: single precision on chip pulp, caches warm.

Each beside its target: the cycles of another kernel that does the same or its opposite, those that
the DMA needs for the weights, or a part of the rate that blocks of 4 x 4 sums have.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.figure import Figure
from benchmarks.kernels import Case, measured
from soc.chip.spec import SocSpec

NEARLY = 1.05  # of the target


@dataclass(frozen=True)
class Corner:
    """A kernel at a shape.

    cycles    target, as a number, or those of another kernel's case
    """

    case: Case
    cycles: float | Case
    chip: str = "pulp"


def _case(family: str, name: str, **arguments: Any) -> Case:
    return Case(f"{family} {name}", f"{family}_f32", arguments)


def _matmul(n: int, k: int, m: int, rate: float, chip: str = "pulp") -> Corner:
    """A product, and multiply-adds per cycle that are to be reached."""
    of = f"{n}x{k}x{m}" + ("" if chip == "pulp" else f" on {chip}")
    return Corner(_case("matmul", of, n=n, k=k, m=m), n * k * m / rate, chip)


def _streamed(step: str, inputs: int, outputs: int) -> Corner:
    """A linear layer of one sample, whose weights pass by at two words a cycle.

    The DMA pauses for two cycles after each 256 bytes: 94 % of that is what it can bring.
    """
    tensors: Mapping[str, Any] = {"inputs": inputs, "outputs": outputs, "tile": {}}
    name = f"{inputs}->{outputs} from L2"
    return Corner(_case(f"linear_{step}", name, **tensors), inputs * outputs / (2 * STREAMED))


PLANES = {"inputs": 32, "height": 24, "width": 24, "stride": 2, "kernel": 3, "padding": 1}
POINTWISE = {"inputs": 64, "outputs": 64, "height": 25, "width": 5}
FEW = {"inputs": 2, "outputs": 2, "height": 50, "width": 50, "kernel": 3}
SMALL = {"inputs": 5, "outputs": 3, "height": 7, "width": 7, "kernel": 3}
LINES = {"inputs": 64, "height": 25, "width": 5, "kernel": 3, "padding": 1}
BLOCKED = 16 / 3  # multiply-adds per cycle of 4 x 4 sums
SHARE = 0.7  # of it, for what is small
STREAMED = 0.95  # of two words a cycle

CORNERS = (
    *(
        Corner(
            _case(f"conv2d_{step}", "64->64, kernel 1", kernel=1, **POINTWISE),
            _case(f"pwconv2d_{step}", "64->64", **POINTWISE),
        )
        for step in ("fw", "wg", "ig")
    ),
    Corner(
        _case("dwconv2d_ig", "3 x 3, stride 2", **PLANES),
        _case("dwconv2d_fw", "3 x 3, stride 2", **PLANES),
    ),
    Corner(_case("conv2d_wg", "2->2, 50 x 50", **FEW), 82_944 / (SHARE * BLOCKED)),
    Corner(_case("conv2d_wg", "5->3, 7 x 7", **SMALL), 3_375 / (SHARE * BLOCKED)),
    Corner(_case("dwconv2d_wg", "64, 25 x 5", **LINES), 60_736 / (SHARE * BLOCKED)),
    _matmul(7, 300, 5, 10_500 / 2_250),
    _matmul(60, 64, 60, 5.43),
    _matmul(64, 64, 64, 5.56, "pulp-cv32e40p"),
    _matmul(8, 8, 8, 0.6 * BLOCKED),
    *(
        _streamed(step, *size)
        for step in ("fw", "ig")
        for size in ((128, 128), (300, 77), (640, 128))
    ),
    Corner(_case("maxpool2d_fw", "8 x 16 x 16", c=8, h=16, w=16, kernel=2), 2_856 * 1.6 / 2),
    Corner(_case("gelu_fw", "2048", shape=[2048]), 11_307 * 1.3 / 2),
)
"""Those of maxpool and gelu are to be twice as fast as PULP-TrainLib's plain C, which takes 1.6 and
1.3 times 2,856 and 11,307 cycles.
"""


def corners(chip: SocSpec | None = None, cases: tuple[Corner, ...] = CORNERS) -> Iterator[Figure]:
    """Cycles of each, its target, and the ratio.

    chip    in place of each one's own
    """
    for corner in cases:
        on = chip or corner.chip
        cycles = measured(corner.case, on, warm=True).cycles
        target = corner.cycles
        if isinstance(target, Case):
            target = measured(target, on, warm=True).cycles
        yield Figure(corner.case.name, cycles, "cycles", target, cycles / target, most=NEARLY)

"""One training step of a small network, region by region, beside PULP-TrainLib's tutorial.

Conv2D 8 -> 16, 3 x 3, on 8 x 8; ReLU; Linear 576 -> 32; mean squared error; gradient descent. The
published figures are of GVSoC with 256 kB of L1, which knows no conflicts in L1; regions that are
not published are what is left of the total. Ours are of a second step, its caches warm.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.figure import Figure
from soc.chip.spec import SocSpec, load_chip
from trainlib.launch import launch

L1_SIZE = 0x40000
LAYERS = (
    {"kind": "conv2d", "outputs": 16, "kernel": 3},
    {"kind": "relu"},
    {"kind": "linear", "outputs": 32},
)
TRAINING: dict[str, Any] = {"input": [8, 8, 8], "layers": LAYERS, "lr": 0.1}
SPEED_UP = 2.75


class Region(NamedTuple):
    """Which of our regions it has, and the published cycles on one core and on eight."""

    ours: tuple[str, ...]
    one: int
    eight: int


REGIONS = {
    "Conv2D forward": Region(("conv2d_0_fw",), 192_390, 27_668),
    "ReLU forward": Region(("relu_1_fw",), 5_686, 917),
    "Linear forward": Region(("linear_2_fw",), 74_805, 11_784),
    "Linear backward": Region(("linear_2_ig", "linear_2_wg"), 174_306, 23_937),
    "ReLU backward": Region(("relu_1_bw",), 6_550, 1_038),
    "Conv2D weights": Region(("conv2d_0_wg",), 198_573, 28_923),
    "loss and update": Region(("loss", "update"), 97_952, 13_089),
    "total": Region(("compute",), 750_262, 107_356),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "naive": {"kernels": "naive", "fused": False},
    "best": {},
}


def second_step(chip: SocSpec | str, **how: Any) -> dict[str, int]:
    """Cycles of a second step of training by region.

    raises    RuntimeError if the result is wrong
    """
    cycles = []
    for steps in (1, 2):
        _, report = launch("train_f32", {**TRAINING, "steps": steps, **how}, chip)
        if not report.is_correct:
            raise RuntimeError(f"train_f32, {how}: its result is wrong")
        cycles.append({name: region.cycles for name, region in report.regions.items()})
    once, twice = cycles
    return {name: twice[name] - count for name, count in once.items()}


def network() -> Iterator[Figure]:
    """Cycles by region: naive kernels and the best, on one core and on eight; all tensors in L1."""
    chip = load_chip("pulp", {"l1.size": L1_SIZE})
    for variant, how in VARIANTS.items():
        for cores in (1, 8):
            cycles = second_step(chip, cores=cores, **how)
            yield from figures(variant, cores, cycles)
    small = second_step("pulp")
    yield Figure("best, 8 cores: total from L2, 64 kB of L1", small["compute"], "cycles")


def figures(variant: str, cores: int, cycles: Mapping[str, int]) -> Iterator[Figure]:
    """The rows of a run, published cycles over ours."""
    for name, region in REGIONS.items():
        ours = sum(cycles.get(own, 0) for own in region.ours)
        published = region.one if cores == 1 else region.eight
        wanted = SPEED_UP if (variant, cores, name) == ("best", 8, "total") else None
        title = f"{variant}, {cores} core{'s' * (cores > 1)}: {name}"
        how = {"ratio": published / ours, "least": wanted, "published": published}
        yield Figure(title, ours, "cycles", **how)

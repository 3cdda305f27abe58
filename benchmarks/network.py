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
    """Which of our regions it has, and the published cycles on one core and on eight.

    updates    those of ours that it has where updates go into gradients
    """

    ours: tuple[str, ...]
    one: int
    eight: int
    updates: tuple[str, ...] = ()


CONVOLUTION, LINEAR = "conv2d_0 update", "linear_2 update"
REGIONS = {
    "Conv2D forward": Region(("conv2d_0 forward",), 192_390, 27_668),
    "ReLU forward": Region(("relu_1 forward",), 5_686, 917),
    "Linear forward": Region(("linear_2 forward",), 74_805, 11_784),
    "Linear backward": Region(("linear_2 backward",), 174_306, 23_937, (LINEAR,)),
    "ReLU backward": Region(("relu_1 backward",), 6_550, 1_038),
    "Conv2D weights": Region(("conv2d_0 backward",), 198_573, 28_923, (CONVOLUTION,)),
    "loss and update": Region(("loss forward", CONVOLUTION, LINEAR), 97_952, 13_089),
    "total": Region(("compute",), 750_262, 107_356),
}
VARIANTS: dict[str, dict[str, Any]] = {"naive": {"kernels": "naive"}, "best": {}}


def regions(variant: str) -> dict[str, tuple[str, ...]]:
    """Ours by the published name: the best kernels change weights where their gradients are."""
    if variant == "naive":
        return {name: region.ours for name, region in REGIONS.items()}
    fused = {update for region in REGIONS.values() for update in region.updates}
    return {
        name: tuple(own for own in region.ours if own not in fused) + region.updates
        for name, region in REGIONS.items()
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
    parts = regions(variant)
    for name, region in REGIONS.items():
        ours = sum(cycles.get(own, 0) for own in parts[name])
        published = region.one if cores == 1 else region.eight
        wanted = SPEED_UP if (variant, cores, name) == ("best", 8, "total") else None
        title = f"{variant}, {cores} core{'s' * (cores > 1)}: {name}"
        how = {"ratio": published / ours, "least": wanted, "published": published}
        yield Figure(title, ours, "cycles", **how)

"""One kernel for all layers."""

from autotuner.blockings import PAPER_KERNELS, PaperKernel
from autotuner.measurement import Outcome
from autotuner.single_kernel_baseline import OneSize, kernels_at
from autotuner.space import Space
from soc.chip.spec import load_chip

FIRST, SECOND, THIRD = PAPER_KERNELS[:3]


def test_each_kernel_is_measured_with_the_tile_of_the_point_and_each_blocking_once():
    space = Space.of("linear_fw_f32", {"inputs": 640, "outputs": 128}, load_chip("pulp"))
    point = space.default()
    asked = []

    def measure(points):
        asked.extend(points)
        return [Outcome(len(repr(point.kernel))) for point in points]

    found = kernels_at(space, point, measure)
    assert tuple(found) == PAPER_KERNELS
    assert len(asked) == len(set(asked)) < len(PAPER_KERNELS)
    assert {(p.tile, p.buffers, p.cores) for p in asked} == {(point.tile, 2, 8)}
    rows = [found[PaperKernel(r, 4, "columns")] for r in (1, 2, 4)]
    assert rows[0] == rows[1] == rows[2]  # the layer has one row


def outcomes(first, second, third):
    cycles = {FIRST: first, SECOND: second, THIRD: third}
    return {kernel: Outcome(cycles.get(kernel)) for kernel in PAPER_KERNELS}


def test_the_best_single_kernel_has_the_fewest_cycles_of_all_layers_and_fails_on_none():
    layers = [(outcomes(10, 20, 1), 1), (outcomes(30, 10, None), 2)]
    assert OneSize.of(layers) == OneSize(SECOND, 40)
    layers[1] = (outcomes(24, 20, None), 2)
    assert OneSize.of(layers) == OneSize(FIRST, 58)


def test_if_every_kernel_fails_somewhere_there_is_none():
    assert OneSize.of([(outcomes(1, None, None), 1), (outcomes(None, 1, 1), 1)]) is None

"""Fully connected layers and convolutions of 1 x 1, their gradients, in L1 and by tiles."""

import numpy as np
import pytest

from firmware.builder import KernelError
from tests.trainlib.cluster import CHIPS, PULP, WARM, is_right_without_time, random, run
from trainlib.gemm.row_sums import sums_f32
from trainlib.launch import checked, launch, program
from trainlib.reference.matmul import matmul
from trainlib.registry import family_of

STEPS = ("fw", "wg", "ig")
LAYERS = {
    "one": {"inputs": 1, "outputs": 1},
    "vector": {"inputs": 37, "outputs": 11},
    "few outputs": {"inputs": 130, "outputs": 3},
    "batch": {"inputs": 13, "outputs": 7, "batch": 5},
    "long rows": {"inputs": 600, "outputs": 5, "batch": 2},
}
POINTWISE = {
    "one": {"inputs": 1, "outputs": 1, "height": 1, "width": 1},
    "odd": {"inputs": 5, "outputs": 7, "height": 5, "width": 3},
    "batch": {"inputs": 3, "outputs": 2, "height": 4, "width": 7, "batch": 3},
}


def right(kernel, point, chip=WARM):
    """Run it; the report of a run that is right and writes nowhere else."""
    _, report = launch(kernel, point, chip, guard=64, max_cycles=5_000_000)
    assert (report.result.exit.message, report.result.warnings) == ("", ())
    assert report.stray_writes == []
    assert report.is_correct
    return report


@pytest.mark.parametrize("shape", LAYERS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled
def test_a_linear_layer_is_right(step, shape):
    right(f"linear_{step}_f32", LAYERS[shape])
    right(f"linear_{step}_f32", LAYERS[shape] | {"bias": step != "ig", "cores": 3})
    right(f"linear_{step}_f32", LAYERS[shape] | {"accumulate": True, "bias": step == "wg"})


@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("shape", POINTWISE)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled
def test_a_pointwise_convolution_is_right(step, shape, layout):
    point = POINTWISE[shape] | {"layout": layout}
    right(f"pwconv2d_{step}_f32", point | {"bias": step != "ig"})
    right(f"pwconv2d_{step}_f32", point | {"accumulate": True, "bias": step == "wg"})


@pytest.mark.parametrize("tile", [None, {"n": 2, "ci": 3, "co": 2}])
@pytest.mark.parametrize("shape", LAYERS)
@pytest.mark.sampled
def test_a_relu_is_of_whole_sums(shape, tile):
    fitted = tile and {
        n: min(s, LAYERS[shape].get(d, 1))
        for (n, s), d in zip(tile.items(), ("batch", "inputs", "outputs"), strict=True)
    }
    point = {**LAYERS[shape], "tile": fitted, "bias": True, "relu": True}
    report = right("linear_fw_f32", point)
    assert (report.outputs["Y"] >= 0).all()
    right("linear_fw_f32", point | {"bias": False, "cores": 1})


def test_a_relu_of_a_pointwise_convolution_is_right():
    for layout in ("chw", "hwc"):
        point = POINTWISE["odd"] | {"layout": layout, "relu": True, "tile": {"ci": 2, "y": 2}}
        assert (right("pwconv2d_fw_f32", point).outputs["Y"] == 0).any()


@pytest.mark.parametrize("tile", [{"n": 2, "ci": 3, "co": 2}, {"n": 3, "co": 4}, {}], ids=str)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled
def test_tiles_are_right_wherever_they_are_cut(step, tile):
    point = {"inputs": 7, "outputs": 11, "batch": 3, "tile": tile}
    right(f"linear_{step}_f32", point | {"bias": step != "ig"})
    right(f"linear_{step}_f32", point | {"accumulate": True, "rows": 1, "cols": 1})
    point |= {"height": 5, "width": 3, "tile": tile | {"y": 2}}
    right(f"pwconv2d_{step}_f32", point | {"bias": step != "ig"})
    right(f"pwconv2d_{step}_f32", point | {"layout": "hwc", "batch": 4})


def test_the_gradient_of_a_bias_is_added_once_whatever_the_tiles():
    point = {"inputs": 9, "outputs": 5, "bias": True, "accumulate": True, "tile": {"co": 2}}
    right("linear_wg_f32", point)
    right("pwconv2d_wg_f32", point | {"height": 3, "width": 2})


SCALED = (
    {"inputs": 20, "outputs": 7},
    {"inputs": 20, "outputs": 7, "batch": 5},
    {"inputs": 33, "outputs": 70, "batch": 3, "cores": 3},
    {"inputs": 3, "outputs": 1, "batch": 4},
    {"inputs": 1, "outputs": 3, "batch": 2, "cores": 1},
    {"inputs": 64, "outputs": 64, "batch": 17, "rows": 2, "cols": 3},
    {"inputs": 90, "outputs": 40, "batch": 6, "tile": {"co": 9}},
)


@pytest.mark.parametrize("scale", [-1e-5, "operand"])
@pytest.mark.parametrize("point", SCALED, ids=str)
@pytest.mark.sampled
def test_a_whole_gradient_is_scaled_and_added_once(point, scale):
    """The reference allows the sum's own rounding, whatever the batch."""
    for bias in (False, True):
        right("linear_wg_f32", point | {"bias": bias, "scale": scale})


def test_a_scaled_gradient_is_a_step_of_sgd():
    point = {"inputs": 40, "outputs": 30, "batch": 4}
    values = family_of("linear_wg_f32").random(checked("linear_wg_f32", point | {"scale": 1.0}))
    stepped, _ = launch("linear_wg_f32", point | {"scale": -0.01}, inputs=values)
    gradient, _ = launch("linear_wg_f32", point, inputs={n: values[n] for n in ("dY", "X")})
    both = {"w": values["dW"], "g": gradient["dW"]}
    apart, _ = launch("sgd_f32", {"shape": (30, 40), "lr": 0.01}, inputs=both)
    np.testing.assert_allclose(stepped["dW"], apart["w"], rtol=2e-7, atol=1e-8)


def test_scale_and_accumulate_are_not_taken_together():
    message = "linear_wg_f32: accumulate and scale; scale adds, leave one out"
    point = {"inputs": 4, "outputs": 3, "accumulate": True, "scale": 1.0}
    with pytest.raises(KernelError, match=f"^{message}$"):
        program("linear_wg_f32", point)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled
def test_every_kind_of_chip_computes_it(step, chip):
    scaled = LAYERS["batch"] | {"scale": "operand"}
    assert step != "wg" or is_right_without_time("linear_wg_f32", scaled, CHIPS[chip])
    assert is_right_without_time(f"linear_{step}_f32", LAYERS["batch"], CHIPS[chip])
    assert is_right_without_time(f"pwconv2d_{step}_f32", POINTWISE["batch"], CHIPS[chip])


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (20, 5), (65, 2), (8, 600)])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_rows_are_summed_up_whatever_their_strides(shape, is_transposed):
    rows, terms = shape
    x = random(rows, terms)
    strides = {"row": 4, "term": 4 * rows} if is_transposed else {"row": 4 * terms, "term": 4}
    operands = {"x": x.T.copy() if is_transposed else x, "y": random(rows, seed=1)}

    def emit(k, team, x, y):
        sums_f32(k, team, x, y, rows, terms, **strides)
        sums_f32(k, team, x, y, rows, terms, **strides, accumulate=True)

    left = run(emit, operands, in_registers=True, writes=("y",))
    exact, bound = matmul(np.concatenate((x, x), 1), np.ones((2 * terms, 1)))
    assert (abs(left.values["y"] - exact[:, 0]) <= bound[:, 0]).all()


@pytest.mark.parametrize("kind", ["linear", "pwconv2d"])
def test_the_reference_means_what_pytorch_means(kind):
    torch = pytest.importorskip("torch")
    for shape in (LAYERS if kind == "linear" else POINTWISE).values():
        expected, given = {}, {}
        for step in STEPS:
            family = family_of(f"{kind}_{step}_f32")
            arguments = family.arguments(**shape, bias=step != "ig")
            given = family.random(arguments) | given
            own = {name: given[name] for name in family.random(arguments)}
            expected |= family.reference(arguments, own)
        x, w, bias, dy = (
            torch.tensor(given[name], dtype=torch.float64, requires_grad=True)
            for name in ("X", "W", "bias", "dY")
        )
        if kind == "linear":
            y = torch.nn.functional.linear(x, w, bias)
        else:
            y = torch.nn.functional.conv2d(x, w[:, :, None, None], bias)
        y.backward(dy)
        for name, exact in (("Y", y), ("dX", x.grad), ("dW", w.grad), ("dbias", bias.grad)):
            np.testing.assert_allclose(expected[name][0], exact.detach().numpy(), 1e-12, 1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_macs_per_cycle_from_l2_do_not_fall_below_what_was_reached(step):
    """Weights of a linear layer come at 8 bytes a cycle: 2 multiply-adds at most."""
    point = {"inputs": 64, "outputs": 64, "height": 25, "width": 5}
    assert right(f"pwconv2d_{step}_f32", point, PULP).macs_per_cycle >= 4.6
    point = {"inputs": 640, "outputs": 128}
    linear = right(f"linear_{step}_f32", point, PULP)
    assert linear.macs_per_cycle >= {"fw": 1.65, "wg": 1.4, "ig": 1.55}[step]


@pytest.mark.parametrize("step", ["fw", "ig"])
@pytest.mark.parametrize("layout", ["chw", "hwc"])
def test_rows_side_by_side_seldom_meet_in_a_bank(step, layout):
    point = {"inputs": 64, "outputs": 64, "height": 10, "width": 5, "layout": layout, "tile": {}}
    report = right(f"pwconv2d_{step}_f32", point, PULP)
    assert report.stalls["l1_contention"] < 0.02 * 8 * report.cycles


@pytest.mark.parametrize("step", ["fw", "ig"])
@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize(
    "point",
    [
        {"inputs": 97, "outputs": 67, "tile": {"co": 13, "ci": 50}},
        {"inputs": 64, "outputs": 131, "tile": {}, "accumulate": True},
        {"inputs": 97, "outputs": 67, "tile": {}, "buffers": 1},
        {"inputs": 2500, "outputs": 70, "tile": {"co": 13, "ci": 50}},
    ],
    ids=lambda point: "-".join(map(str, point.values())),
)
@pytest.mark.sampled
def test_layers_that_the_dma_is_slower_than_are_right(step, cores, point):
    right(f"linear_{step}_f32", point | {"cores": cores}, PULP)


def test_with_warm_caches_a_linear_layer_reaches_nine_tenths_of_what_the_dma_brings():
    report = right("linear_fw_f32", {"inputs": 640, "outputs": 128, "warm": True}, PULP)
    read = 4 * (640 * 128 + 640)
    assert report.cycles <= read / 8 / 0.9


@pytest.mark.parametrize("step", STEPS)
def test_tiles_of_pointwise_layers_count_all_places_of_their_lines(step):
    kernel = f"pwconv2d_{step}_f32"
    wide, narrow = (
        family_of(kernel).tiling(
            checked(kernel, {"inputs": 8, "outputs": 8, "height": 9, "width": width})
        )
        for width in (36, 1)
    )
    assert narrow.rate == pytest.approx(36 * wide.rate)


@pytest.mark.parametrize("where", [{}, {"tile": {}}])
def test_biases_of_many_rows_and_terms_have_gradients(where):
    """More rows than registers hold sums of, each in several equal parts."""
    layer = {"inputs": 3, "outputs": 54, "batch": 44, "bias": True, "cores": 2}
    right("linear_wg_f32", layer | where)

"""Normalisations: every shape, layout, split and team; hard data; torch's meaning; refusals."""

import numpy as np
import pytest

from firmware.builder import KernelError
from soc.chip.spec import load_chip
from tests.trainlib.primitives import WARM, check, check_in_registers, check_with_torch
from trainlib.launch import checked, launch, program
from trainlib.norm.variants import NORMS
from trainlib.primitive.element import BF16, F16
from trainlib.registry import KERNELS

MAPS = ["batchnorm", "batchnorm_frozen", "instancenorm", "groupnorm"]
ROWS = ["layernorm", "rmsnorm"]
PASSES = pytest.mark.parametrize("pass_", ["fw", "bw"])
MAP_POINTS = (
    {"b": 1, "c": 2, "hw": 2, "groups": 1},
    {"b": 2, "c": 6, "hw": 7, "groups": 3, "cores": 4},
    {"b": 2, "c": 6, "hw": 7, "groups": 3, "cores": 3, "layout": "hwc"},
    {"b": 3, "c": 4, "hw": 25, "groups": 2, "split": "columns"},
    {"b": 2, "c": 4, "hw": 9, "groups": 4, "split": "columns", "layout": "hwc", "cores": 2},
    {"b": 5, "c": 17, "hw": 3, "groups": 17, "split": "rows", "cores": 8},
    {"b": 1, "c": 3, "hw": 600, "groups": 1, "layout": "hwc", "cores": 1},
    {"b": 2, "c": 4, "hw": 90, "groups": 4, "cores": 8},  # two cores share a channel
    {"b": 1, "c": 6, "hw": 250, "groups": 2, "layout": "hwc", "cores": 8},  # four
)
ROW_POINTS = (
    {"rows": 1, "columns": 2},
    {"rows": 5, "columns": 7, "cores": 3},
    {"rows": 3, "columns": 130, "split": "columns"},
    {"rows": 19, "columns": 16, "cores": 8},
    {"rows": 2, "columns": 33, "cores": 1},
    {"rows": 2, "columns": 300, "cores": 8},
)


def arguments(name, point):
    """A point without what the normalisation does not have."""
    return {key: value for key, value in point.items() if key != "groups" or name == "groupnorm"}


@pytest.mark.parametrize("point", MAP_POINTS, ids=str)
@pytest.mark.parametrize("name", MAPS)
@PASSES
@pytest.mark.sampled
def test_every_map_and_split_is_right(name, pass_, point):
    check(f"{name}_{pass_}_f32", arguments(name, point))


@pytest.mark.parametrize("point", ROW_POINTS, ids=str)
@pytest.mark.parametrize("name", ROWS)
@PASSES
@pytest.mark.sampled
def test_every_row_and_split_is_right(name, pass_, point):
    check(f"{name}_{pass_}_f32", point)


@pytest.mark.parametrize(
    ("b", "c", "cores"), [(3, 11, 8), (2, 5, 8), (9, 5, 7), (5, 3, 2), (3, 34, 16), (4, 6, 8)]
)
@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("name", ["instancenorm", "groupnorm"])
@pytest.mark.parametrize("pass_", ["fw", "bw", "apply"])
@pytest.mark.sampled
def test_rows_of_images_and_channels_that_are_shared_as_one_dimension_are_right(
    name, pass_, layout, b, c, cores
):
    groups = c if c % 2 else c // 2
    point = {"b": b, "c": c, "hw": 20, "groups": groups, "layout": layout, "cores": cores}
    chip = load_chip("pulp", {"cores": cores, "dma.ports": cores})
    _, report = launch(f"{name}_{pass_}_f32", arguments(name, point), chip, guard=64)
    assert report.is_correct
    assert report.stray_writes == []


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("groupnorm", {"b": 1, "c": 12, "hw": 60, "groups": 3, "tile": {"hw": 20}}),
        ("groupnorm", {"b": 3, "c": 12, "hw": 60, "groups": 3, "tile": {"hw": 20, "size": 3}}),
        ("groupnorm", {"b": 2, "c": 12, "hw": 60, "groups": 2, "tile": {"hw": 20, "size": 2}}),
        ("instancenorm", {"b": 3, "c": 5, "hw": 60, "tile": {"hw": 20, "b": 2}}),
        ("instancenorm", {"b": 1, "c": 5, "hw": 60, "tile": {"hw": 20}}),
    ],
)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("element", ["f32", "f16"])
@pytest.mark.sampled
def test_gradients_by_channels_of_rows_that_are_cut_are_right(name, point, relu, layout, element):
    check(f"{name}_bw_{element}", point | {"relu": relu, "layout": layout})


def test_each_core_has_a_row_of_images_and_channels():
    """Ten channels of four images are five rows a core, not eight."""
    cycles = [
        launch("instancenorm_fw_f32", {"b": 4, "c": c, "hw": 256}, WARM)[1].cycles for c in (10, 16)
    ]
    assert cycles[0] < cycles[1] * 5.5 / 8


@pytest.mark.parametrize("channels", [2, 4])
@PASSES
def test_groups_of_cores_share_channels_faster_than_one_core_or_all(pass_, channels):
    point = {"c": channels, "hw": 512, "cores": 8}
    cycles = {}
    for split in ("auto", "rows", "columns"):
        _, report = launch(f"batchnorm_{pass_}_f32", point | {"split": split})
        assert report.is_correct
        cycles[split] = report.cycles
    assert cycles["auto"] < min(cycles["rows"], cycles["columns"])


@pytest.mark.parametrize("point", MAP_POINTS[1::2], ids=str)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("pass_", ["fw", "bw", "apply"])
@pytest.mark.sampled
def test_a_relu_of_every_map_is_right(name, pass_, point):
    if (name, pass_) != ("batchnorm_frozen", "apply"):
        check(f"{name}_{pass_}_f32", arguments(name, point) | {"relu": True})


@pytest.mark.parametrize("name", ["batchnorm", "groupnorm"])
@PASSES
def test_a_relu_of_rows_larger_than_l1_is_right(name, pass_):
    point = arguments(name, {"c": 2, "hw": 3000, "groups": 1, "relu": True})
    chip = load_chip("pulp", {"l1.size": 0x4000})
    _, report = launch(f"{name}_{pass_}_f32", point, chip)
    assert report.is_correct


def test_a_relu_gives_what_one_of_its_own_gives_bit_for_bit():
    point = {"b": 2, "c": 3, "hw": 8}
    inputs = KERNELS["batchnorm_bw_f32"].random(KERNELS["batchnorm_bw_f32"].arguments(**point))
    y, dy = np.random.default_rng(3).standard_normal((2, 2, 3, 8), np.float32)
    masked, _ = launch("relu_bw_f32", {"shape": y.shape}, inputs={"x": y, "dy": dy})
    wanted, _ = launch("batchnorm_bw_f32", point, inputs=inputs | {"dy": masked["dx"]})
    found, _ = launch(
        "batchnorm_bw_f32", point | {"relu": True}, inputs=inputs | {"dy": dy, "y": y}
    )
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("hw", [64, 125])
def test_equal_gradients_of_an_image_add_up_to_each_others_sums(hw):
    """Sums of 16 in each of two lanes are added up: longer ones have several times the error."""
    point = {"b": 4, "c": 16, "hw": hw}
    inputs = KERNELS["batchnorm_bw_f32"].random(KERNELS["batchnorm_bw_f32"].arguments(**point))
    each = np.random.default_rng(1).standard_normal((4, 16, 1)).astype(np.float32)
    dy = np.repeat(each, hw, 2)
    found, _ = launch("batchnorm_bw_f32", point, inputs=inputs | {"dy": dy})
    wanted = dy.astype(np.float64).sum((0, 2))
    assert np.abs(found["dbeta"] - wanted).max() < 2e-7 * np.abs(wanted).max()


@pytest.mark.parametrize("cores", [1, 8])
@pytest.mark.parametrize("point", [{"b": 3, "c": 4, "hw": 297}, {"c": 2, "hw": 4000}], ids=str)
def test_a_variance_of_many_equal_elements_is_right(point, cores):
    """Their squares are all rounded alike: a sum of one part has 50 times a rounding's error."""
    shape = (point.get("b", 1), point["c"], point["hw"])
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    x = np.where(np.arange(point["hw"]) % 9, np.float32(0.013), x)
    given = KERNELS["batchnorm_fw_f32"].random(checked("batchnorm_fw_f32", point)) | {"x": x}
    found, _ = launch("batchnorm_fw_f32", point | {"cores": cores}, inputs=given)
    wanted = 1 / np.sqrt(x.astype(np.float64).var((0, 2)) + 1e-5)
    assert np.abs(found["rstd"] / wanted - 1).max() < 5 * 2.0**-24


SAVED = [name for name in MAPS + ROWS if name != "batchnorm_frozen"]


@pytest.mark.parametrize("l1_size", [0x10000, 0x3000])
@pytest.mark.parametrize("name", SAVED)
def test_outputs_from_saved_means_are_those_of_forward_bit_for_bit(name, l1_size):
    """In tiles and phases too; and running means stay what they are."""
    sizes = {"b": 2, "c": 4, "hw": 600, "groups": 2}
    point = arguments(name, sizes) if name in MAPS else {"rows": 6, "columns": 700}
    chip = load_chip("pulp", {"l1.size": l1_size})
    kernel = f"{name}_fw_f32"
    values = KERNELS[kernel].random(checked(kernel, point))
    forward, report = launch(kernel, point, chip, values)
    assert report.is_correct
    saved = {"x", "gamma", "beta", "mean", "rstd"}
    given = {n: a for n, a in (values | forward).items() if n in saved}
    again, report = launch(f"{name}_apply_f32", point, chip, given)
    assert report.is_correct
    assert list(again) == ["y"]
    assert again["y"].tobytes() == forward["y"].tobytes()


@pytest.mark.parametrize("point", MAP_POINTS[::2] + ROW_POINTS[::2], ids=str)
@pytest.mark.parametrize("name", SAVED)
def test_saved_means_of_every_map_and_row_are_applied(name, point):
    if (name in ROWS) == ("rows" in point):
        check(f"{name}_apply_f32", arguments(name, point))


@pytest.mark.parametrize("split", ["rows", "columns"])
@pytest.mark.parametrize("name", MAPS + ROWS)
@PASSES
@pytest.mark.sampled
def test_addresses_may_be_in_registers(name, pass_, split):
    point = {"b": 3, "c": 6, "hw": 11, "groups": 2} if name in MAPS else {"rows": 9, "columns": 13}
    check_in_registers(f"{name}_{pass_}_f32", arguments(name, point) | {"split": split, "cores": 4})


def test_a_mean_far_from_zero_leaves_the_variance_its_digits():
    """With E[x^2] - E[x]^2, nothing would be left of it."""
    x = np.random.default_rng(3).standard_normal((2, 100), np.float32) + 4096
    outputs = check(
        "layernorm_fw_f32",
        {"rows": 2, "columns": 100},
        {"x": x, "gamma": np.ones(100, np.float32), "beta": np.zeros(100, np.float32)},
    )
    exact = 1 / np.sqrt(x.astype(np.float64).var(1) + 1e-5)
    np.testing.assert_allclose(outputs["rstd"], exact, rtol=3e-5)


LARGER_THAN_L1 = pytest.mark.parametrize(
    "shape", [(2, 3, 50), (1, 2, 3000)], ids=["in_l1", "larger_than_l1"]
)


@LARGER_THAN_L1
@pytest.mark.parametrize("name", ["batchnorm", "layernorm"])
def test_equal_elements_are_their_mean_and_give_beta(name, shape):
    outputs, report = normalised(name, np.full(shape, 1000.1, np.float32), 1e-8)
    assert report.is_correct
    assert outputs["mean"].tolist() == [np.float32(1000.1)] * outputs["mean"].size
    assert not outputs["y"].any()
    np.testing.assert_allclose(outputs["rstd"], 1e4, rtol=1e-7)


@LARGER_THAN_L1
@pytest.mark.parametrize("name", ["batchnorm", "layernorm"])
def test_a_large_mean_costs_no_more_digits_than_in_torch(name, shape):
    torch = pytest.importorskip("torch")
    x = (1000 + 0.1 * np.random.default_rng(3).standard_normal(shape)).astype(np.float32)
    outputs, report = normalised(name, x, 1e-5)
    assert report.is_correct
    axes = 1 if name == "layernorm" else (0, 2)
    wide = x.astype(np.float64).reshape(-1, shape[-1]) if name == "layernorm" else x.astype(float)
    mean, variance = (f(wide, axis=axes, keepdims=True) for f in (np.mean, np.var))
    exact = ((wide - mean) / np.sqrt(variance + 1e-5)).reshape(-1)
    f = torch.nn.functional
    if name == "layernorm":
        single = f.layer_norm(torch.tensor(x), shape[-1:], eps=1e-5)
    else:
        single = f.batch_norm(torch.tensor(x), None, None, training=True, eps=1e-5)
    torchs = np.abs(single.numpy().astype(np.float64).reshape(-1) - exact).max()
    assert np.abs(outputs["y"].reshape(-1) - exact).max() <= 4 * torchs + 2**-24 * exact.max()


@pytest.mark.parametrize("shape", [{"b": 2, "c": 3, "hw": 25}, {"b": 1, "c": 4, "hw": 64}], ids=str)
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_outputs_of_halves_from_saved_means_are_the_references_bit_for_bit(shape, element):
    outputs, report = launch(f"batchnorm_apply_{element}", shape | {"relu": True})
    expected, _ = report.expected["y"]
    np.testing.assert_array_equal(outputs["y"].astype(np.float64), expected)


ODD_ROWS = (
    {"c": 5, "hw": 25},
    {"c": 4, "hw": 3, "b": 2, "split": "rows"},
    {"c": 3, "hw": 7, "b": 2},
    {"c": 9, "hw": 125, "split": "columns", "cores": 3},
    {"c": 20, "hw": 125, "tile": {"c": 6}},
)


@pytest.mark.parametrize("shape", ODD_ROWS, ids=str)
@pytest.mark.parametrize("kernel", ["batchnorm_fw", "batchnorm_bw", "instancenorm_bw"])
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.sampled(2)
def test_rows_of_halves_that_begin_amid_words_are_the_references(kernel, shape, element):
    check(f"{kernel}_{element}", shape | {"relu": True})
    check(f"{kernel}_{element}", shape)


@pytest.mark.parametrize(("element", "step"), [(BF16, 8), (F16, 1)], ids=["bf16", "f16"])
def test_the_mean_of_halves_is_no_less_exact_far_from_zero(element, step):
    """Deviations are sums of two units in the last place: none of them is lost."""
    far = [1000, 1000 + step, 1000 + 2 * step]
    x = np.random.default_rng(3).choice(far, (2, 3, 51)).astype(element.dtype)
    outputs, report = normalised("batchnorm", x, 1e-5, element.name)
    assert report.is_correct
    wide = x.astype(np.float64)
    mean, variance = (f(wide, axis=(0, 2)) for f in (np.mean, np.var))
    np.testing.assert_allclose(outputs["mean"], mean, rtol=2e-7)
    np.testing.assert_allclose(outputs["rstd"], 1 / np.sqrt(variance + 1e-5), rtol=1e-5)
    equal = np.full((2, 3, 51), far[-1], element.dtype)
    outputs, _ = normalised("batchnorm", equal, 1e-5, element.name)
    assert not outputs["y"].astype(np.float32).any()


RANGES = {
    "x - mean is finite, barely": {"x": 2000.0},
    "x - mean is not": {"x": 30000.0},
    "x is tiny": {"x": 2.0**-20},
    "the mean is far": {"x": 1.0, "far": 1000.0},
    "gamma is huge": {"gamma": 1e6},
    "gamma is tiny": {"gamma": 1e-6},
    "gamma is 0": {"gamma": 0.0},
    "gradients are tiny": {"x": 1.0, "dy": 2.0**-14},
    "what is subtracted of them is far less": {"x": 300.0, "dy": 2.0**-4},
    "gradients are huge": {"dy": 5000.0},
    "infinite": {"special": np.inf},
    "no number": {"special": np.nan},
}


@pytest.mark.parametrize("split", ["rows", "columns"])
@pytest.mark.parametrize("values", RANGES.values(), ids=RANGES)
@pytest.mark.parametrize("kernel", ["batchnorm_fw", "batchnorm_bw", "batchnorm_frozen_bw"])
@pytest.mark.sampled
def test_rows_of_fp16_are_the_references_where_pairs_would_leave_its_range(kernel, values, split):
    """And gradients are as near to float64 as a few roundings, of the largest or of tiny ones."""
    name, point = f"{kernel}_f16", {"c": 3, "hw": 25, "b": 2, "split": split, "relu": True}
    inputs = in_range(name, point, **values)
    outputs = check(name, point, inputs)
    if kernel != "batchnorm_bw" or "special" in values:
        return
    x, dy, mean, rstd = (inputs[n].astype(np.float64) for n in ("x", "dy", "mean", "rstd"))
    dy = np.where(inputs["y"] > 0, dy, 0)
    scale = (inputs["gamma"] * rstd)[:, None]
    h = (x - mean[:, None]) * rstd[:, None]
    sums = (a.mean((0, 2), keepdims=True) for a in (dy, dy * h))
    exact = scale * (dy - next(sums) - h * next(sums))
    most = np.abs(exact).max((0, 2), keepdims=True)
    if most.max() < 60000:
        distance = np.abs(outputs["dx"].astype(np.float64) - exact)
        assert (distance <= 3 * 2.0**-11 * most + 3 * 2.0**-25).all()


def in_range(name, point, *, x=1.0, far=0.0, gamma=1.0, dy=1.0, special=0.0):
    """Inputs of these sizes, and the means of x."""
    drawn = KERNELS[name].random(checked(name, point))
    g = np.random.default_rng(7)
    values = {n: g.standard_normal(drawn[n].shape) for n in ("x", "y", "dy") if n in drawn}
    if "x" in values:
        values["x"] = values["x"] * x + far
    if "dy" in values:
        values["dy"] *= dy
    if special:
        next(iter(values.values()))[0, 1, 2] = special
    found = {n: np.clip(a, -65504, 65504) if np.isfinite(a).all() else a for n, a in values.items()}
    found = {n: a.astype(np.float16) for n, a in found.items()}
    found |= {"gamma": (drawn["gamma"] * gamma).astype(np.float32)}
    if "mean" in drawn:
        wide = found["x"].astype(np.float64)
        with np.errstate(invalid="ignore"):
            found["mean"] = wide.mean((0, 2)).astype(np.float32)
            found["rstd"] = (1 / np.sqrt(wide.var((0, 2)) + 1e-5)).astype(np.float32)
    return drawn | found


def normalised(name, x, eps, element="f32"):
    """Normalised with gamma 1 and beta 0, on a chip with 16 kB of L1."""
    *_, channels, places = x.shape
    if name == "layernorm":
        point, n = {"rows": x.size // places, "columns": places}, places
    else:
        point, n = {"b": len(x), "c": channels, "hw": places}, channels
    zeros, ones = np.zeros(n, np.float32), np.ones(n, np.float32)
    inputs = {"x": x.reshape(-1, places) if name == "layernorm" else x, "gamma": ones}
    inputs |= {"beta": zeros}
    if name == "batchnorm":
        inputs |= {"running_mean": zeros, "running_var": ones}
    chip = load_chip("pulp", {"l1.size": 0x4000})
    return launch(f"{name}_fw_{element}", point | {"eps": eps}, chip, inputs=inputs)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_make_their_row_nan(value):
    x = np.ones((3, 5), np.float32)
    x[1, 2] = value
    parameters = {"gamma": np.ones(5, np.float32), "beta": np.zeros(5, np.float32)}
    outputs = check("layernorm_fw_f32", {"rows": 3, "columns": 5}, {"x": x, **parameters})
    assert np.isnan(outputs["y"]).all(axis=1).tolist() == [False, True, False]


@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize("name", MAPS)
def test_the_references_of_maps_are_torchs(name, layout):
    point = arguments(name, {"b": 3, "c": 6, "hw": 5, "groups": 2}) | {"layout": layout}
    compare(name, point, (0, 2, 1) if layout == "hwc" else (0, 1, 2))


@pytest.mark.parametrize("name", ROWS)
def test_the_references_of_rows_are_torchs(name):
    compare(name, {"rows": 4, "columns": 6}, (0, 1))


def compare(name, point, order):
    """Forward, and backward by autograd; x in torch's order of dimensions."""

    def function(torch, x, gamma, beta=None, running_mean=None, running_var=None):
        f = torch.nn.functional
        if name == "layernorm":
            return f.layer_norm(x, (6,), gamma, beta)
        if name == "rmsnorm":
            return f.rms_norm(x, (6,), gamma, 1e-5)
        if name == "groupnorm":
            return f.group_norm(x, 2, gamma, beta)
        if name == "instancenorm":
            return f.instance_norm(x, weight=gamma, bias=beta)
        return f.batch_norm(x, running_mean, running_var, gamma, beta, name == "batchnorm")

    def forward(torch, x, **others):
        y = function(torch, x.permute(order), **others).permute(order)
        running = [others[n] for n in ("running_mean", "running_var") if n in others]
        return (y, *running) if name == "batchnorm" else y

    def backward(torch, x, dy, gamma, mean=None, rstd=None, **others):
        beta = torch.zeros_like(gamma) if name != "rmsnorm" else None
        leaves = [t.requires_grad_() for t in (x, gamma, beta) if t is not None]
        y = function(torch, x.permute(order), gamma, beta, **others)
        y.permute(order).backward(dy)
        return [leaf.grad for leaf in leaves]

    check_with_torch(f"{name}_fw_f32", point, forward, is_part=True)
    norm = next(norm for norm in NORMS if norm.name == name)
    family = KERNELS[f"{name}_bw_f32"]
    values = family.random(family.arguments(**point))
    exact = {}
    if not norm.is_frozen:
        layout = norm.layout(family.arguments(**point))
        wide, axes = layout.spread("x", values["x"].astype(np.float64)), layout.averaged
        mean = wide.mean(axes, keepdims=True) * norm.is_centred
        rstd = 1 / np.sqrt(((wide - mean) ** 2).mean(axes) + 1e-5)
        exact = {"mean": mean.reshape(rstd.shape), "rstd": rstd}
    check_with_torch(
        f"{name}_bw_f32", point, backward, {n: a for n, a in exact.items() if n in values}
    )


def test_the_references_of_a_relu_are_torchs():
    def forward(torch, x, gamma, beta, running_mean, running_var):
        f = torch.nn.functional
        return f.relu(f.batch_norm(x, running_mean, running_var, gamma, beta, True))

    def backward(torch, x, dy, gamma, running_mean, running_var, y):
        kept = torch.nn.functional.batch_norm(
            x.requires_grad_(), running_mean, running_var, gamma.requires_grad_()
        )
        kept.backward(torch.where(y > 0, dy, 0))
        return [x.grad, gamma.grad]

    point = {"b": 2, "c": 3, "hw": 5, "relu": True}
    check_with_torch("batchnorm_fw_f32", point, forward, is_part=True)
    check_with_torch("batchnorm_frozen_bw_f32", point, backward, is_part=True)


def test_groups_that_do_not_divide_the_channels_are_refused():
    with pytest.raises(KernelError, match=r"^groupnorm: c 6 is no multiple of groups 4$"):
        program("groupnorm_fw_f32", {"c": 6, "hw": 5, "groups": 4})


def test_a_batch_of_one_value_is_refused():
    message = r"^batchnorm: b 1 and hw 1 give one value a channel, no variance$"
    with pytest.raises(KernelError, match=message):
        program("batchnorm_fw_f32", {"c": 6, "hw": 1})


@pytest.mark.parametrize("half", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["batchnorm_fw", "batchnorm_bw", "instancenorm_apply"])
def test_halves_of_a_lone_channel_that_lie_together_by_chance_are_rounded_as_others(name, half):
    for channels in (1, 4):
        for tile in (None, {"c": 1}):
            point = {"b": 2, "c": channels, "hw": 9, "layout": "hwc", "tile": tile}
            check(f"{name}_{half}", point)

"""Products whose inner dimension is partitioned among cores: right, and only where it pays."""

import pytest

from firmware.runtime import new_kernel, team_of
from tests.trainlib.cluster import CHIPS, PULP, random, run
from trainlib.gemm.depth_split import FEW, MOST, scratch_of
from trainlib.gemm.matmul import matmul_f32
from trainlib.launch import launch, program
from trainlib.reference import matmul as reference

STARTS = ({}, {"accumulate": True}, {"bias": "row"}, {"bias": "column", "accumulate": True})
TRANSPOSED = ({}, {"trans_a": True}, {"trans_b": True}, {"trans_a": True, "trans_b": True})
IMAGE = {"height": 30, "width": 13}
LAYERS = (
    ("linear_fw_f32", {"inputs": 300, "outputs": 3, "bias": True, "relu": True}),
    ("linear_fw_f32", {"inputs": 640, "outputs": 10, "cores": 4}),
    ("linear_ig_f32", {"inputs": 10, "outputs": 301, "accumulate": True}),
    ("linear_wg_f32", {"inputs": 5, "outputs": 7, "batch": 300, "bias": True}),
    ("pwconv2d_wg_f32", {"inputs": 11, "outputs": 4, "height": 24, "width": 22}),
    ("pwconv2d_wg_f32", {"inputs": 5, "outputs": 5, **IMAGE, "layout": "hwc", "bias": True}),
    ("conv2d_wg_f32", {"inputs": 7, "outputs": 7, **IMAGE, "kernel": 1, "bias": True}),
    ("conv2d_wg_f32", {"inputs": 3, "outputs": 9, **IMAGE, "kernel": 1, "accumulate": True}),
    ("tconv2d_wg_f32", {"inputs": 6, "outputs": 4, **IMAGE, "kernel": 1}),
)
FLAT = {"inputs": 6, "outputs": 10, **IMAGE}
GRADIENTS = (
    ("pwconv2d_wg_f32", FLAT | {"tile": {}}),
    ("pwconv2d_wg_f32", FLAT | {"tile": {"y": 11}, "bias": True}),
    ("pwconv2d_wg_f32", FLAT | {"batch": 3}),
    ("conv2d_wg_f32", FLAT | {"kernel": 1, "tile": {}}),
    ("conv2d_wg_f32", FLAT | {"kernel": 1, "tile": {"co": 3, "ci": 5, "y": 11}}),
    ("conv2d_wg_f32", FLAT | {"kernel": 1, "tile": {"co": 1, "ci": 2}, "accumulate": True}),
    ("conv2d_wg_f32", FLAT | {"kernel": 1, "stride": 2, "tile": {}}),
    ("conv2d_wg_f32", FLAT | {"kernel": 1, "batch": 3, "tile": {"n": 1}}),
    *(
        ("conv2d_wg_f32", {"inputs": 1, "outputs": 7, **IMAGE, "kernel": 1, "tile": {"y": lines}})
        for lines in (5, 13, 16, 24, 29)
    ),
)


def is_right(kernel, point, chip="pulp"):
    _, report = launch(kernel, point, chip, guard=64, max_cycles=1_000_000)
    return report.is_correct and report.stray_writes == [] and report.result.warnings == ()


def is_in_parts(kernel, point):
    return "depth_split.py" in program(kernel, point).listing()


@pytest.mark.parametrize("trans", TRANSPOSED, ids=str)
@pytest.mark.parametrize("start", STARTS, ids=str)
def test_parts_add_up_to_the_product(trans, start):
    point = {"n": 7, "k": 300, "m": 5, **trans, **start}
    assert is_in_parts("matmul_f32", point)
    assert is_right("matmul_f32", point)


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 6, 8])
def test_any_number_of_cores_computes_them(cores):
    assert is_right("matmul_f32", {"n": 3, "k": 517, "m": 4, "cores": cores})


@pytest.mark.parametrize("chip", CHIPS)
def test_every_kind_of_chip_computes_them(chip):
    assert is_right("matmul_f32", {"n": 5, "k": 400, "m": 5}, CHIPS[chip])


@pytest.mark.parametrize(("kernel", "point"), LAYERS, ids=str)
def test_layers_with_few_results_have_parts(kernel, point):
    assert is_in_parts(kernel, point)
    assert is_right(kernel, point)


@pytest.mark.parametrize(("kernel", "point"), GRADIENTS, ids=str)
def test_gradients_of_weights_of_1_x_1_are_right_in_tiles_and_batches(kernel, point):
    assert is_right(kernel, point)


def test_tiles_whose_buffers_take_turns_have_parts():
    point = {"n": 4, "k": 3000, "m": 4, "tile": {"k": 500}}
    assert is_in_parts("matmul_f32", point)
    assert is_right("matmul_f32", point)


@pytest.mark.parametrize("how", [{}, {"bias_by": "row"}, {"accumulate": True}], ids=str)
@pytest.mark.parametrize("others", [0, 4, 8])
def test_addresses_in_registers_are_left_as_they_are(how, others):
    n, depth, m = 7, 300, 5
    given = {"a": random(n, depth), "b": random(depth, m, seed=1), "c": random(n, m, seed=2)}
    given |= {"bias": random(n, seed=3), "parts": random(MOST * FEW, seed=4)}

    def emit(k, team, a, b, c, bias, parts):
        with k.scope():
            k.x(others)
            point = {"bias": bias, **how} if "bias_by" in how else how
            matmul_f32(k, team, a, b, c, n, depth, m, parts=parts, **point)

    left = run(emit, given, in_registers=True, writes=("c", "parts"))
    bias = given["bias"][:, None] if "bias_by" in how else None
    c = given["c"] if "accumulate" in how else None
    exact, bound = reference.matmul(given["a"], given["b"], bias, c)
    assert (abs(left.values["c"] - exact) <= bound).all()


@pytest.mark.parametrize(("others", "has_parts"), [(0, True), (4, False)])
def test_where_registers_are_few_there_are_no_parts(others, has_parts):
    k = new_kernel(PULP, "test")
    with team_of(k, PULP, 8) as team, k.scope():
        a, b, c, parts = k.x(4)
        k.x(others)
        matmul_f32(k, team, a, b, c, 7, 300, 5, parts=parts)
    assert ("depth_split.py" in k.listing()) == has_parts


def test_a_product_that_is_not_deep_or_has_many_sums_has_none():
    assert scratch_of(8, FEW // 8, 300) == 4 * MOST * FEW
    assert scratch_of(8, FEW // 8 + 1, 300) == 0
    assert scratch_of(7, 5, 15) == 0
    assert not is_in_parts("matmul_f32", {"n": 8, "k": 64, "m": 8})
    assert not is_in_parts("matmul_f32", {"n": 7, "k": 300, "m": 5, "split": (7, 1)})


def test_seven_rows_and_five_columns_of_300_steps_take_three_quarters_of_the_cycles_of_a_grid():
    point = {"n": 7, "k": 300, "m": 5, "warm": True}
    in_parts, grid = (
        launch("matmul_f32", {**point, **how})[1].cycles for how in ({}, {"split": (7, 1)})
    )
    assert in_parts <= 2500
    assert in_parts < 0.75 * grid


def test_44_weights_of_1_x_1_take_three_quarters_of_the_cycles_of_a_grid():
    point = {"inputs": 11, "outputs": 4, "height": 24, "width": 22, "warm": True}
    in_parts, grid = (
        launch("pwconv2d_wg_f32", {**point, **how})[1].cycles for how in ({}, {"split": (4, 2)})
    )
    assert in_parts <= 4900
    assert in_parts < 0.75 * grid

"""What moves data: broadcasts, orders of dimensions, borders, dropout, embeddings; refusals."""

import numpy as np
import pytest

from firmware.builder import KernelError
from tests.trainlib.primitives import NOT_FINITE, check, check_in_registers, check_with_torch
from trainlib.launch import launch, program
from trainlib.reference.dropout import numbers
from trainlib.registry import KERNELS

RELU = pytest.mark.parametrize("dims", [((2, 7), (2, 7)), ((3, 1, 4), (5, 1))], ids=str)
BINARY = pytest.mark.parametrize("name", ["add_f32", "subtract_f32", "multiply_f32", "divide_f32"])
PAIRS = (
    {"a": (1,)},
    {"a": (7,), "cores": 3},
    {"a": (4, 5, 6), "b": (5, 1)},
    {"a": (1, 6), "b": (4, 5, 1), "cores": 4},
    {"a": (3, 520), "b": (520,), "cores": 2},
    {"a": (3, 1), "b": (1, 17)},
    {"a": (2, 1, 4, 1, 3), "b": (5, 1, 2, 1), "cores": 8},
    {"a": (1, 1), "b": (1,), "cores": 1},
)
ORDERS = (
    {"shape": (7,), "axes": (0,)},
    {"shape": (16, 33), "axes": (1, 0)},
    {"shape": (3, 5, 7), "axes": (2, 0, 1), "cores": 3},
    {"shape": (2, 8, 5, 4), "axes": (0, 2, 3, 1), "cores": 4},
    {"shape": (2, 600), "axes": (1, 0), "cores": 1},
    {"shape": (2, 3, 4, 5, 6), "axes": (4, 2, 0, 3, 1), "cores": 8},
)
BORDERS = (
    {"shape": (3,), "before": (0,), "after": (0,)},
    {"shape": (3, 5, 7), "before": (0, 1, 2), "after": (1, 0, 1), "value": 2.5},
    {"shape": (2, 9), "before": (0, 3), "after": (0, 0), "cores": 2},
)
BOXES = (
    {"shape": (7,), "start": (2,), "size": (3,)},
    {"shape": (3, 5, 7), "start": (1, 0, 2), "size": (2, 5, 4), "cores": 3},
    {"shape": (4, 9), "start": (1, 1), "size": (2, 4), "step": (2, 2)},
    {"shape": (1, 6, 1), "start": (0, 0, 0), "size": (4, 6, 5), "step": (0, 1, 0)},
    {"shape": (5, 40), "start": (1, 3), "size": (3, 12), "step": (1, 3), "tile": {"d0": 2}},
    {"shape": (1, 50), "start": (0, 2), "size": (6, 31), "step": (0, 1), "tile": {"d0": 4}},
)
JOINED = (
    {"shape": (7,), "axis": 0, "sizes": (3, 4)},
    {"shape": (3, 7, 5), "axis": 1, "sizes": (1, 4, 2), "cores": 3},
    {"shape": (6, 40), "axis": 1, "sizes": (3, 30, 7), "tile": {"d0": 4, "d1": 8}},
    {"shape": (6, 40), "axis": 0, "sizes": (1, 2, 3), "tile": {"d0": 2, "d1": 16}},
    {"shape": (16, 4), "axis": 0, "sizes": (2,) * 8},
)
TABLES = (
    {"entries": 1, "columns": 1, "tokens": 1},
    {"entries": 20, "columns": 7, "tokens": 9},
    {"entries": 20, "columns": 7, "tokens": 9, "split": "columns", "cores": 3},
    {"entries": 3, "columns": 33, "tokens": 11, "split": "rows", "cores": 4},
    {"entries": 5, "columns": 3, "tokens": 40, "cores": 1},
)


@RELU
def test_a_sum_below_zero_is_zero_with_a_relu(dims):
    outputs = check("add_f32", {"a": dims[0], "b": dims[1], "relu": True})
    assert (outputs["y"] == 0).any()


@pytest.mark.parametrize("point", PAIRS, ids=str)
@BINARY
def test_every_broadcast_is_right(name, point):
    check(name, point)


@BINARY
def test_special_values_are_torchs(name):
    a, b = (m.flatten() for m in np.meshgrid(NOT_FINITE, NOT_FINITE))
    check(name, {"a": a.shape}, {"a": a, "b": b})


@BINARY
def test_the_references_of_broadcasts_are_torchs(name):
    def golden(torch, a, b):
        functions = {"add": torch.add, "subtract": torch.sub, "divide": torch.div}
        return functions.get(name.removesuffix("_f32"), torch.mul)(a, b)

    check_with_torch(name, PAIRS[3], golden)


def test_both_gradients_of_a_sum_are_its():
    check("residual_bw_f32", {"shape": (3, 11)})


@pytest.mark.parametrize("point", ORDERS, ids=str)
def test_every_order_of_dimensions_is_right(point):
    check("transpose_f32", point)


@pytest.mark.parametrize("point", BORDERS, ids=str)
def test_every_border_is_right(point):
    check("pad_f32", point)


@pytest.mark.parametrize("point", BOXES, ids=str)
def test_every_box_is_right(point):
    check("slice_f32", point)


@pytest.mark.parametrize("point", JOINED, ids=str)
def test_tensors_lie_one_after_the_other(point):
    check("concat_f32", point)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", [(1,), (7, 11)])
def test_dropout_is_its_reference(shape, p):
    check("dropout_f32", {"shape": shape, "p": p})


def test_dropout_draws_the_same_on_any_team():
    inputs = {"x": np.ones(101, np.float32), "seed": np.array([5], np.int32)}
    teams = [check("dropout_f32", {"shape": (101,), "cores": n}, inputs)["y"] for n in (1, 3, 8)]
    assert (teams[0] == teams[1]).all()
    assert (teams[0] == teams[2]).all()


def test_numbers_are_even_and_independent_of_place_and_seed():
    """Bits are set in half of the numbers, and agree with their neighbours' in half."""
    for seed in (0, 1, 12345):
        drawn = numbers(1 << 16, seed)
        others = (drawn[:-1] ^ drawn[1:], drawn ^ numbers(1 << 16, seed + 1), drawn)
        for bits in others:
            shares = [(bits >> np.uint32(i) & 1).mean() for i in range(32)]
            np.testing.assert_allclose(shares, 0.5, atol=0.01)


@pytest.mark.parametrize("point", TABLES, ids=str)
@pytest.mark.parametrize("pass_", ["fw", "bw"])
def test_every_embedding_is_right(pass_, point):
    check(f"embedding_{pass_}_f32", point)


def test_the_reference_of_an_embeddings_gradient_is_torchs():
    def golden(torch, index, dy):
        table = torch.zeros(20, 7, dtype=torch.float64, requires_grad=True)
        torch.nn.functional.embedding(index, table).backward(dy)
        return table.grad

    check_with_torch("embedding_bw_f32", TABLES[1], golden)


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("add_f32", PAIRS[2]),
        ("multiply_f32", {"a": (37,)}),
        ("residual_bw_f32", {"shape": (13,)}),
        ("transpose_f32", ORDERS[2]),
        ("pad_f32", BORDERS[1]),
        ("slice_f32", BOXES[1]),
        ("concat_f32", JOINED[1]),
        ("dropout_f32", {"shape": (37,)}),
        ("embedding_fw_f32", TABLES[1]),
        ("embedding_bw_f32", TABLES[1]),
    ],
)
def test_addresses_may_be_in_registers(name, point):
    check_in_registers(name, point)


@pytest.mark.parametrize(
    ("name", "point", "message"),
    [
        (
            "add_f32",
            {"a": (2, 3), "b": (2,)},
            r"^add_f32: broadcast: shapes \(2, 3\) and \(2,\) do not fit each other$",
        ),
        (
            "transpose_f32",
            {"shape": (2, 3), "axes": (1, 1)},
            r"^transpose: axes \(1, 1\) are not those of 2 dimensions$",
        ),
        (
            "pad_f32",
            {"shape": (2, 3), "before": (1,), "after": (0, 0)},
            r"^pad: before \(1,\) and after \(0, 0\) are not for 2 dimensions$",
        ),
        (
            "slice_f32",
            {"shape": (2, 3), "start": (0, 1), "size": (2, 2), "step": (1, 2)},
            r"^slice: dimension 1 has 3 elements; start 1, step 2 and size 2 reach beyond$",
        ),
        (
            "slice_f32",
            {"shape": (2, 3), "start": (0,), "size": (2, 2)},
            r"^slice: start, step and size are not for 2 dimensions$",
        ),
        (
            "concat_f32",
            {"shape": (2, 3), "axis": 1, "sizes": (1, 1)},
            r"^concat: sizes \[1, 1\] do not add up to dimension 1 of \[2, 3\]$",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_refused(name, point, message):
    with pytest.raises(KernelError, match=message):
        program(name, point)


@pytest.mark.parametrize("pass_", ["fw", "bw"])
@pytest.mark.parametrize("wrong", [-1, 7])
def test_numbers_that_no_entry_has_are_refused(pass_, wrong):
    kernel, arguments = f"embedding_{pass_}_f32", {"entries": 7, "columns": 2, "tokens": 3}
    family = KERNELS[kernel]
    inputs = family.random(family.arguments.model_validate(arguments))
    inputs["index"] = np.array([6, wrong, 0])
    with pytest.raises(
        ValueError, match=rf"^embedding_{pass_}_f32: index\[1\] is {wrong}; it takes 0 to 6$"
    ):
        launch(kernel, arguments, inputs=inputs)


def test_a_class_that_there_is_not_is_refused():
    inputs = {"x": np.zeros((3, 4)), "t": [0, 3, 4]}
    with pytest.raises(ValueError, match=r"^cross_entropy_loss_f32: t\[2\] is 4; it takes 0 to 3$"):
        launch("cross_entropy_loss_f32", {"b": 3, "classes": 4}, inputs=inputs)

"""Primitives cut into tiles: right at borders of any size, and bit for bit what one tile gives."""

import numpy as np
import pytest

from firmware.builder import KernelError
from tests.trainlib.primitives import check
from trainlib.launch import program
from trainlib.registry import KERNELS

MAP = {"b": 2, "c": 7, "hw": 6}
GROUPS = {"b": 2, "c": 10, "hw": 6, "groups": 5}
ROWS = {"rows": 11, "columns": 9}
POOL = {"b": 3, "c": 7, "h": 6, "w": 5, "kernel": (3, 2), "stride": (2, 1), "pad": (1, 1)}
WINDOWS = (
    ({}, 1),
    ({"layout": "hwc"}, 2),
    ({"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0)}, 2),
    ({"h": 9, "kernel": (4, 3), "stride": (1, 2), "pad": (2, 0)}, 2),
    ({"h": 11, "kernel": (2, 1), "stride": (4, 1), "pad": (1, 0), "layout": "hwc"}, 1),
)
PLANES = {"b": 3, "c": 7, "h": 4, "w": 3, "out": (5, 6)}
HWC = {"layout": "hwc"}
PLACES = {"b": 2, "c": 3}
RESIZED = [f"{name}_{p}" for name in ("nearest", "bilinear") for p in ("fw", "bw")]
SIZES = (
    ({"h": 5, "out": (13, 4)}, {}, 2),
    ({"h": 13, "out": (5, 4)}, HWC, 1),
    ({"h": 4, "out": (12, 9)}, HWC, 3),
    ({"h": 3, "out": (1, 2)}, {}, 1),
)

WIDE = {"inputs": 2, "outputs": 3, "height": 3, "width": 1025}
TABLE = {"entries": 9, "columns": 5, "tokens": 12}

POINTS = [
    ("softmax_fw_f32", {"shape": (5, 3, 7), "axis": 1}, {"d0": 2, "d2": 3}),
    ("softmax_bw_f32", {"shape": (9, 8)}, {"d0": 4}),
    *((f"batchnorm_{p}_f32", MAP, {"c": 3}) for p in ("fw", "bw")),
    *((f"batchnorm_frozen_{p}_f32", MAP | {"layout": "hwc"}, {"c": 3}) for p in ("fw", "bw")),
    *((f"instancenorm_{p}_f32", MAP, {"c": 2}) for p in ("fw", "bw")),
    ("groupnorm_fw_f32", GROUPS, {"c": 2}),
    ("groupnorm_fw_f32", GROUPS | {"layout": "hwc"}, {"c": 3}),
    *((f"{n}_fw_f32", ROWS, {"rows": 4}) for n in ("layernorm", "rmsnorm")),
    ("cross_entropy_loss_f32", {"b": 1, "classes": 9}, {"b": 1}),
    *((f"{n}_f32", POOL, PLACES) for n in ("maxpool2d_fw", "maxpool2d_bw", "avgpool2d_fw")),
    ("avgpool2d_bw_f32", POOL | {"layout": "hwc"}, PLACES),
    *(
        (f"{n}_f32", POOL | window, {"b": 2, "c": 4, "y": y})
        for n in ("maxpool2d_fw", "maxpool2d_bw", "avgpool2d_fw")
        for window, y in WINDOWS
    ),
    *((f"{n}_f32", PLANES | layout, PLACES) for n in RESIZED for layout in ({}, HWC)),
    *((f"{n}_f32", PLANES | size | layout, {"y": y}) for n in RESIZED for size, layout, y in SIZES),
    *(
        (f"bilinear_{p}_f32", PLANES | {"h": 9, "out": (7, 4), "aligned": True}, {"y": 2})
        for p in ("fw", "bw")
    ),
    ("embedding_fw_f32", {"entries": 9, "columns": 40, "tokens": 7}, {"columns": 16, "tokens": 3}),
    ("embedding_bw_f32", {"entries": 9, "columns": 40, "tokens": 7}, {"columns": 16}),
    ("embedding_fw_f32", TABLE, {"entries": 4, "columns": 3, "tokens": 5}),
    ("embedding_bw_f32", TABLE, {"entries": 4, "columns": 3, "tokens": 5}),
    ("embedding_bw_f32", TABLE, {"entries": 9, "columns": 5, "tokens": 1}),
    ("add_f32", {"a": (4, 5, 6), "b": (5, 1)}, {"d0": 3, "d1": 2, "d2": 4}),
    ("multiply_f32", {"a": (7, 1), "b": (1, 9)}, {"d0": 3, "d1": 4}),
    ("residual_bw_f32", {"shape": (5, 9)}, {"d0": 2, "d1": 4}),
    ("transpose_f32", {"shape": (5, 9, 4), "axes": (2, 0, 1)}, {"d0": 2, "d1": 4, "d2": 3}),
    ("reduce_f32", {"shape": (5, 9, 4), "axes": (1,)}, {"d0": 2, "d2": 3}),
    ("dropout_f32", {"shape": (1, 13, 5)}, {"d1": 3}),
    ("dropout_f32", {"shape": (47,), "p": 0.2, "cores": 3}, {"d0": 10}),
    ("pad_f32", {"shape": (5, 4), "before": (3, 1), "after": (2, 0)}, {"d0": 2, "d1": 3}),
    ("pad_f32", {"shape": (4,), "before": (7,), "after": (6,), "value": 2.5}, {"d0": 3}),
    ("reduce_f32", {"shape": (5, 9), "axes": (1, 0), "what": "max"}, {}),
]
SUMS = [  # the order of additions differs: over tiles, or fewer side by side for want of registers
    ("groupnorm_bw_f32", GROUPS, {"c": 2}),
    ("groupnorm_bw_f32", GROUPS | {"layout": "hwc"}, {"c": 3}),
    *((f"{n}_bw_f32", ROWS, {"rows": 4}) for n in ("layernorm", "rmsnorm")),
    *(("avgpool2d_bw_f32", POOL | window, {"b": 2, "c": 4, "y": y}) for window, y in WINDOWS),
    *(
        ("avgpool2d_bw_f32", POOL | {"counts_pad": False, "kernel": (3, 3), "h": 8}, {"y": y})
        for y in (1, 2, 3)
    ),
    ("mse_loss_f32", {"shape": (5, 33)}, {"d0": 2, "d1": 16}),
    ("l1_loss_f32", {"shape": (47,), "reduction": "sum"}, {"d0": 16}),
    ("berhu_loss_f32", {"shape": (5, 33), "cores": 3}, {"d0": 2, "d1": 16}),
    ("berhu_loss_f32", {"shape": (1,), "cores": 1}, {}),
    ("berhu_loss_f32", {"shape": (47,), "reduction": "sum", "alpha": 0.5}, {"d0": 1}),
    ("cross_entropy_loss_f32", {"b": 11, "classes": 5}, {"b": 4}),
    ("cross_entropy_loss_f32", {"b": 11, "classes": 5, "is_soft": True}, {"b": 3}),
]
PARTS_OF_ROWS = [  # in several passes
    *(
        (f"{n}_{p}_f32", MAP | {"layout": layout}, {"c": 3, "hw": 4, "b": 1})
        for n in ("batchnorm", "batchnorm_frozen", "instancenorm")
        for p in ("fw", "bw")
        for layout in ("chw", "hwc")
    ),
    *(
        (f"groupnorm_{p}_f32", GROUPS | {"layout": layout}, {"groups": 2, "size": 1, "hw": 4})
        for p in ("fw", "bw")
        for layout in ("chw", "hwc")
    ),
    *(
        (f"{n}_{p}_f32", ROWS, {"rows": 5, "columns": 4})
        for n in ("layernorm", "rmsnorm")
        for p in ("fw", "bw")
    ),
    *(
        (f"softmax_{p}_f32", {"shape": (5, 13, 3), "axis": axis}, {f"d{axis}": 2, "d0": 2})
        for p in ("fw", "bw")
        for axis in (0, 1)
    ),
    *(
        ("reduce_f32", {"shape": (5, 9, 4), "axes": axes, "what": what}, {"d0": 2, "d1": 4})
        for what in ("sum", "mean", "max")
        for axes in ((1,), (0, 2), (0, 1, 2))
    ),
    *(
        ("cross_entropy_loss_f32", {"b": b, "classes": 29} | soft, {"b": 3, "classes": 8})
        for b in (5, 3)
        for soft in ({}, {"is_soft": True}, {"split": "columns"}, {"split": "rows"})
    ),
    *(
        (f"pwconv2d_{step}_f32", WIDE | {"layout": layout}, {"x": 500, "y": 2})
        for step, layout in (("fw", "chw"), ("wg", "hwc"), ("ig", "chw"), ("wg", "chw"))
    ),
    *((f"softmax_{p}_f32", {"shape": (29,)}, {"d0": 9}) for p in ("fw", "bw")),
]


@pytest.mark.parametrize(("name", "point", "tile"), PARTS_OF_ROWS, ids=str)
@pytest.mark.sampled(3)
def test_rows_may_be_cut(name, point, tile):
    check(name, point | {"tile": tile, "cores": 3})


@pytest.mark.parametrize(("name", "point", "tile"), POINTS, ids=str)
@pytest.mark.sampled(3)
def test_tiles_give_the_same_bits(name, point, tile):
    point = point | {"cores": 4}
    if "split" in KERNELS[name].arguments.model_fields:
        point["split"] = "rows"  # else it may depend on the size of a tile
    whole = check(name, point)
    tiles = check(name, point | {"tile": tile})
    assert all(whole[n].tobytes() == tiles[n].tobytes() for n in whole)


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize(("name", "point", "tile"), SUMS, ids=str)
@pytest.mark.sampled
def test_sums_over_tiles_are_right(name, point, tile, buffers):
    check(name, point | {"tile": tile, "buffers": buffers})


@pytest.mark.parametrize("x", [[np.nan, 2.0, 3.5], [1.0, 2.0, 3.0], [np.inf, 2.0, 1.0]], ids=str)
def test_the_largest_difference_of_all_tiles_is_that_of_all(x):
    inputs = {"x": np.array(x, np.float32), "t": np.array([1.0, 2.0, 3.0], np.float32)}
    whole = check("berhu_loss_f32", {"shape": (3,)}, inputs)
    tiles = check("berhu_loss_f32", {"shape": (3,), "tile": {"d0": 1}}, inputs)
    assert whole["dx"].tobytes() == tiles["dx"].tobytes()


def test_warm_passes_do_not_begin_with_running_means_that_the_first_has_changed():
    point = {"b": 2, "c": 2, "hw": 3000, "warm": True}
    with pytest.raises(
        KernelError,
        match=r"^batchnorm_fw_f32: warm with running_mean in L2, which is read and overwritten; "
        r"leave warm out, or take tensors that fit L1$",
    ):
        program("batchnorm_fw_f32", point)
    check("layernorm_fw_f32", {"rows": 1, "columns": 8000, "warm": True})


def test_a_largest_of_tiles_is_nan_if_any_is():
    x = np.zeros((5, 4), np.float32)
    x[0, 0], x[3, 1], x[:, 2], x[4, 3] = np.nan, np.nan, -np.inf, -1
    point = {"shape": (5, 4), "axes": (0,), "what": "max", "tile": {"d0": 2}}
    outputs = check("reduce_f32", point, {"x": x})
    assert np.isnan(outputs["y"]).tolist() == [True, True, False, False]


def test_tensors_larger_than_l1_are_cut_by_themselves():
    check("batchnorm_fw_f32", {"c": 33, "hw": 600})
    check("layernorm_bw_f32", {"rows": 90, "columns": 100})
    check("maxpool2d_fw_f32", {"c": 40, "h": 20, "w": 20, "kernel": (2, 2)})
    check("maxpool2d_fw_f32", {"c": 1, "h": 120, "w": 120, "kernel": (3, 3), "stride": (2, 2)})
    check("maxpool2d_bw_f32", {"c": 1, "h": 120, "w": 120, "kernel": (3, 3), "stride": (2, 2)})
    check("batchnorm_bw_f32", {"b": 2, "c": 2, "hw": 3000})
    check("layernorm_fw_f32", {"rows": 1, "columns": 8000})
    check("rmsnorm_bw_f32", {"rows": 2, "columns": 4000, "cores": 1})
    check("bilinear_bw_f32", {"c": 1, "h": 64, "w": 64, "out": (111, 128), "cores": 3})
    check("nearest_fw_f32", {"c": 1, "h": 60, "w": 60, "out": (128, 128)})
    check("softmax_fw_f32", {"shape": (1, 8000)})
    check("softmax_bw_f32", {"shape": (8000, 1), "axis": 0})
    check("reduce_f32", {"shape": (2, 9000), "axes": (1,), "what": "mean"})
    check("embedding_fw_f32", {"entries": 9000, "columns": 2, "tokens": 30})
    check("cross_entropy_loss_f32", {"b": 2, "classes": 6000})
    check("mse_loss_f32", {"shape": (9000,)})
    check("berhu_loss_f32", {"shape": (9000,)})

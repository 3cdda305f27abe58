"""Convolutions whose channels are parts of cores, against PyTorch in float64."""

import numpy as np
import pytest

from tests.trainlib.cluster import CHIPS, WARM
from trainlib.conv.line_parts import Sized, channel_parts
from trainlib.launch import launch

FEW = {"inputs": 41, "outputs": 3, "height": 9, "width": 9, "kernel": 3, "padding": 1}
SHAPES = {
    "plain": ("conv2d_fw", FEW),
    "strided": ("conv2d_fw", FEW | {"stride": 2, "height": 17, "width": 15}),
    "a bias": ("conv2d_fw", FEW | {"bias": True}),
    "a batch": ("conv2d_fw", FEW | {"bias": True, "batch": 2}),
    "hwc": ("conv2d_fw", FEW | {"layout": "hwc", "bias": True}),
    "added": ("conv2d_fw", FEW | {"accumulate": True, "bias": True, "batch": 2}),
    "a gradient": ("conv2d_ig", FEW | {"inputs": 3, "outputs": 41}),
    "a gradient with a stride": (
        "conv2d_ig",
        FEW | {"inputs": 3, "outputs": 41, "stride": 2, "accumulate": True},
    ),
    "transposed": ("tconv2d_fw", FEW | {"bias": True}),
    "tiles": ("conv2d_fw", FEW | {"tile": {"ci": 23}, "bias": True}),
}


def right(kernel, shape, chip=WARM):
    """Run it; the report of a run that is right and writes nowhere else."""
    _, report = launch(f"{kernel}_f32", shape, chip, guard=64, max_cycles=5_000_000)
    assert (report.result.exit.message, report.result.warnings) == ("", ())
    assert report.stray_writes == []
    assert report.is_correct
    return report


@pytest.mark.parametrize("name", SHAPES)
def test_parts_of_channels_add_up_to_the_result(name):
    right(*SHAPES[name])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("cores", [2, 5])
def test_parts_of_channels_suit_every_cluster(chip, cores):
    right("conv2d_fw", FEW | {"cores": cores}, CHIPS[chip])


def test_cores_that_share_no_row_share_channels():
    alone = right("conv2d_fw", FEW | {"split": (3, 2)}).cycles
    assert right("conv2d_fw", FEW).cycles < 0.9 * alone


def test_a_tile_at_an_end_has_room_for_its_own_sums_alone():
    size = {"inputs": 9, "outputs": 39, "height": 31, "width": 21, "kernel": 3}
    right("conv2d_ig", size | {"tile": {}, "warm": False})


def test_rows_and_lines_that_suffice_have_all_channels():
    assert channel_parts(8, Sized(16, 64, 16, 16, 9)) == 1
    assert Sized(16, 64, 16, 16, 9).bytes(8) == 0


def test_sizes_may_be_arrays():
    rows, lines = np.array([[3], [16]]), np.array([9, 16])
    found = Sized(rows, 41, lines, 9, 9).bytes(8)
    assert found.tolist() == [
        [int(Sized(int(r), 41, int(n), 9, 9).bytes(8)) for n in lines] for r in rows[:, 0]
    ]
    assert found.any()
    assert not found.all()

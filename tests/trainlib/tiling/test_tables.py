"""Tables of steps that leave no room in L2: tiles that nobody asks for are chosen so that they run.

The gradients are those of torch in float64.
"""

import re

import numpy as np
import pytest

from firmware.builder import KernelError
from soc.chip.spec import load_chip
from trainlib.launch import launch, program

IMAGE = {"height": 21, "width": 24, "inputs": 7, "outputs": 5, "kernel": (5, 5)}
SHORT = (
    ("conv2d_fw_f32", {"height": 10, "width": 19, "inputs": 13, "outputs": 12, "kernel": (7, 7)}),
    ("tconv2d_ig_f32", IMAGE),
    ("dwconv2d_wg_f32", {"height": 16, "width": 24, "inputs": 20, "kernel": (7, 7)}),
)


def chip(l2_size, l1_size=0x3000):
    return load_chip("pulp", {"l1.size": l1_size, "l2.size": l2_size})


@pytest.mark.parametrize(("kernel", "point"), SHORT)
def test_a_chosen_tile_leaves_room_for_its_table(kernel, point):
    _, report = launch(kernel, point, chip(0x30000), guard=64)
    assert report.is_correct
    assert report.stray_writes == []
    assert "dma_wait" in report.regions


def test_a_wide_transposed_gradient_runs_without_a_tile(request):
    if not request.config.getoption("--full"):
        pytest.skip("29 million cycles")
    torch = pytest.importorskip("torch")
    point = {"height": 59, "width": 29, "inputs": 87, "outputs": 8, "kernel": (11, 11)}
    how = {"stride": (2, 2), "padding": (0, 1, 2, 1), "output_padding": (1, 1), "layout": "hwc"}
    values, report = launch("tconv2d_ig_f32", point | how | {"accumulate": True})
    assert report.is_correct
    built = program("tconv2d_ig_f32", point | how | {"accumulate": True})
    dy, w, dx = (torch.tensor(built.inputs[n].astype(float)) for n in ("dY", "W", "dX"))
    wide = torch.nn.functional.pad(dy.permute(0, 3, 1, 2), (2, 1, 0, 1))
    exact = torch.nn.functional.conv2d(wide, w.permute(0, 3, 1, 2), stride=2)[..., :59, :29]
    np.testing.assert_allclose(values["dX"], dx + exact.permute(0, 2, 3, 1), atol=1e-2)


def test_a_table_for_which_there_is_no_room_is_told():
    message = (
        "conv2d_fw_f32: tiles of n = 1, y = 4, x = 13, co = 3, ci = 1 need 8640 bytes of L2 for "
        "their schedule, 8000 are left; larger ones need fewer, if L1 has room for them"
    )
    with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
        program("conv2d_fw_f32", SHORT[0][1], chip(0x2C800))

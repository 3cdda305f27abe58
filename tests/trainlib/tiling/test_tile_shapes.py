"""Shapes of tiles and how often they come: as if all tiles were listed."""

from collections import Counter
from dataclasses import replace

import pytest

from trainlib.registry import KERNELS
from trainlib.tiling.tile_shapes import shapes_of


@pytest.mark.parametrize(
    ("kernel", "arguments", "sizes"),
    [
        ("conv2d_fw_f32", {"inputs": 5, "outputs": 7, "height": 13, "width": 9, "kernel": 3}
         | {"padding": 1}, {"n": 1, "y": 2, "x": 4, "co": 3, "ci": 2}),
        ("conv2d_ig_f32", {"inputs": 3, "outputs": 4, "height": 11, "width": 10, "kernel": 3}
         | {"padding": 1, "stride": 2}, {"n": 1, "y": 3, "x": 5, "ci": 2, "co": 3}),
        ("dwconv2d_fw_f32", {"inputs": 11, "height": 17, "width": 6, "kernel": 5, "padding": 4},
         {"n": 1, "y": 3, "x": 6, "g": 4}),
        ("matmul_f32", {"n": 10, "k": 9, "m": 8}, {"n": 4, "m": 8, "k": 2}),
        ("linear_ig_f32", {"inputs": 13, "outputs": 139, "batch": 15},
         {"n": 15, "ci": 13, "co": 96}),
    ],
)  # fmt: skip
def test_shapes_are_counted_as_in_a_list_of_all_tiles(kernel, arguments, sizes):
    family = KERNELS[kernel]
    point = family.arguments(**arguments)
    tiling, tensors = replace(family.tiling(point), told=None), family.tensors(point)
    listed = Counter(tile.shape for tile in tiling.tiles(sizes, tensors))
    assert shapes_of(tiling, sizes, tensors) == listed

"""Recurrent layers larger than L1: by tiles of any size, what they compute without; refusals."""

import pytest

from firmware.builder import KernelError
from tests.trainlib.primitives import check
from trainlib.launch import launch, program

LAYER = pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
DIRECTION = pytest.mark.parametrize("direction", ["fw", "bw"])
SHAPE = {"steps": 3, "inputs": 5, "hidden": 7, "batch": 3}
POINTS = (
    SHAPE | {"tile": {}},
    SHAPE | {"tile": {"rows": 4, "inputs": 2, "sums": 3, "batch": 2}, "cores": 3},
    SHAPE | {"tile": {"sums": 1, "batch": 1}, "buffers": 1},
    {"steps": 1, "inputs": 2, "hidden": 9, "tile": {"sums": 8}, "cores": 1},
    {"steps": 4, "inputs": 1, "hidden": 1, "batch": 2, "tile": {"batch": 1}, "cores": 4},
    {"steps": 2, "inputs": 3, "hidden": 13, "tile": {"sums": 6}},
)


@pytest.mark.parametrize("point", POINTS, ids=str)
@DIRECTION
@LAYER
@pytest.mark.sampled
def test_every_tiling_computes_the_same_and_writes_nothing_else(name, direction, point):
    check(f"{name}_{direction}_f32", point)


@DIRECTION
def test_relus_may_be_cut_too(direction):
    check(f"rnn_{direction}_f32", POINTS[1] | {"activation": "relu"})


@pytest.mark.parametrize("tile", [{}, {"sums": 5, "batch": 1, "inputs": 2, "rows": 5}], ids=str)
@LAYER
@pytest.mark.sampled
def test_forward_gives_the_same_bits_whatever_the_tiles(name, tile):
    """An element's terms are added in the same order."""
    whole = check(f"{name}_fw_f32", SHAPE)
    tiles = check(f"{name}_fw_f32", SHAPE | {"tile": tile})
    assert all(whole[n].tobytes() == tiles[n].tobytes() for n in whole)


@pytest.mark.parametrize("tile", [{"sums": 5}, {"sums": 4, "batch": 2, "rows": 4}], ids=str)
@LAYER
@pytest.mark.sampled
def test_backward_gives_the_same_bits_whatever_the_tiles(name, tile):
    """Those of h, too: tiles add to them in the order of the sums."""
    whole = check(f"{name}_bw_f32", SHAPE)
    tiles = check(f"{name}_bw_f32", SHAPE | {"tile": tile})
    assert all(whole[n].tobytes() == tiles[n].tobytes() for n in whole)


@DIRECTION
@LAYER
@pytest.mark.sampled
def test_layers_larger_than_l1_are_cut_by_themselves(name, direction):
    """Weights of 50 KB to 200 KB, read in every step while the one before is computed."""
    point = {"steps": 3, "inputs": 40, "hidden": 64, "batch": 4 if name != "rnn" else 60}
    _, report = launch(f"{name}_{direction}_f32", point, guard=64, max_cycles=5_000_000)
    assert report.is_correct
    assert report.stray_writes == []
    assert "steps" in report.regions
    assert report.dma_overlap > 0.5


def test_they_may_be_measured_warm():
    point = POINTS[4]  # its code stays in the caches; more may take as long as when it is fetched
    cold = launch("gru_fw_f32", point)[1]
    warm = launch("gru_fw_f32", point | {"warm": True})[1]
    assert warm.is_correct
    assert warm.cycles < cold.cycles


@pytest.mark.parametrize(
    ("direction", "needs", "largest", "dims"),
    [
        ("fw", 172416, "batch = 4, step = 1, sums = 32", "biases, rows, sums, inputs, batch, step"),
        ("bw", 173216, "batch = 2, step = 1, sums = 32", "batch, step, sums, rows, inputs, hidden"),
    ],
)
def test_bad_tiles_are_refused_before_anything_runs(direction, needs, largest, dims):
    name = f"lstm_{direction}_f32"
    with pytest.raises(
        KernelError, match=rf"^{name}: tile.n = 1: no such dimension; there are {dims}$"
    ):
        program(name, SHAPE | {"tile": {"n": 1}})
    with pytest.raises(KernelError, match=rf"^{name}: tile.sums = 29: a size is from 1 to 28$"):
        program(name, SHAPE | {"tile": {"sums": 29}})
    with pytest.raises(KernelError, match=rf"^{name}: tile.step = 2: a size is from 1 to 1$"):
        program(name, SHAPE | {"tile": {"step": 2}})
    with pytest.raises(
        KernelError,
        match=rf"^{name}: the smallest tile of batch = 1, step = 1, sums = 400 needs {needs} "
        rf"bytes of L1 with buffers = 2, 57344 are free; the largest that fits is {largest}$",
    ):
        program(name, {"steps": 2, "inputs": 1, "hidden": 100, "batch": 4, "tile": {"sums": 400}})


def test_a_layer_larger_than_l2_is_refused():
    point = {"steps": 1, "inputs": 4, "hidden": 1000}
    with pytest.raises(KernelError, match=r"^rnn_fw_f32: L2: Wh of 4000000 bytes does not fit: "):
        program("rnn_fw_f32", point)

"""Attention larger than L1: by tiles of any size, what it computes without; refusals."""

import pytest

from firmware.builder import KernelError
from tests.trainlib.primitives import check
from trainlib.launch import launch, program

DIRECTION = pytest.mark.parametrize("direction", ["fw", "bw"])
SHAPE = {"length": 5, "embed": 6, "heads": 2, "batch": 3}
TILE = {"rows": 4, "embed": 5, "width": 3, "heads": 1, "queries": 3, "keys": 2, "size": 2}
POINTS = (
    SHAPE | {"tile": {}},
    SHAPE | {"tile": TILE | {"scores": 7}, "cores": 3},
    SHAPE | {"tile": {"batch": 2, "keys": 5}, "buffers": 1, "cores": 1},
    {"length": 1, "embed": 1, "tile": {}},
    {"length": 2, "embed": 3, "heads": 3, "tile": {"batch": 1, "rows": 1}, "cores": 4},
    {"length": 17, "embed": 5, "heads": 3, "size": 4, "tile": {"queries": 8, "keys": 16}},
)


@pytest.mark.parametrize("point", POINTS, ids=str)
@DIRECTION
@pytest.mark.sampled
def test_every_tiling_computes_the_same_and_writes_nothing_else(direction, point):
    check(f"mhsa_{direction}_f32", point)


@pytest.mark.parametrize("tile", [{}, TILE], ids=str)
@pytest.mark.parametrize(
    ("direction", "names"), [("fw", ["QKV"]), ("bw", ["dWo", "dbias", "dbias_o"])]
)
@pytest.mark.sampled
def test_sums_have_the_same_bits_whatever_the_tiles(direction, names, tile):
    """Those of softmax are over parts of rows where these are few."""
    whole = check(f"mhsa_{direction}_f32", SHAPE | {"cores": 1})
    tiles = check(f"mhsa_{direction}_f32", SHAPE | {"cores": 1, "tile": tile})
    assert all(whole[n].tobytes() == tiles[n].tobytes() for n in names)


@DIRECTION
def test_attention_larger_than_l1_is_cut_by_itself(direction):
    point = {"length": 70, "embed": 24, "heads": 3}
    _, report = launch(f"mhsa_{direction}_f32", point, guard=64, max_cycles=5_000_000)
    assert report.is_correct
    assert report.stray_writes == []
    assert report.dma_overlap > 0.6
    assert report.macs_per_cycle > {"fw": 2.4, "bw": 3.2}[direction]


@pytest.mark.parametrize(
    ("direction", "dims"),
    [
        ("fw", "rows, width, embed, others, batch, heads, queries, keys, size, scores"),
        ("bw", "rows, width, embed, batch, heads, queries, keys, size, scores, columns"),
    ],
)
def test_bad_tiles_are_refused_before_anything_runs(direction, dims):
    name = f"mhsa_{direction}_f32"
    with pytest.raises(
        KernelError, match=rf"^{name}: tile.n = 1: no such dimension; there are {dims}$"
    ):
        program(name, SHAPE | {"tile": {"n": 1}})
    with pytest.raises(KernelError, match=rf"^{name}: tile.heads = 3: a size is from 1 to 2$"):
        program(name, SHAPE | {"tile": {"heads": 3}})
    large = {"length": 150, "embed": 8, "tile": {"queries": 150, "keys": 150}}
    with pytest.raises(
        KernelError,
        match=rf"^{name}: the smallest tile of batch = 1, heads = 1, queries = 150, keys = 150, "
        r"size = 1 needs 94800 bytes of L1 with buffers = 2, 57344 are free; the largest that fits "
        r"is batch = 1, heads = 1, queries = 40, keys = 150, size = 8$",
    ):
        program(name, large)


def test_scores_larger_than_l2_are_refused():
    with pytest.raises(KernelError, match=r"^mhsa_fw_f32: L2: P of 4000000 bytes does not fit: "):
        program("mhsa_fw_f32", {"length": 1000, "embed": 2})

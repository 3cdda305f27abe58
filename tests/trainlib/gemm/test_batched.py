"""Products of several pairs of matrices: those of each pair, however they are stored and cut."""

import numpy as np
import pytest

from soc.chip.spec import load_chip
from tests.trainlib.gemm.test_halves import check as check_halves
from tests.trainlib.primitives import check, check_with_torch
from trainlib.launch import launch
from trainlib.primitive.element import HALVES

TIGHT = load_chip("pulp", {"l1.size": 0x4000})
POINTS = (
    {"batch": 1, "n": 3, "k": 5, "m": 7},
    {"batch": 4, "n": 6, "k": 5, "m": 9, "cores": 3},
    {"batch": 3, "n": 17, "k": 1, "m": 8},
    {"batch": 5, "n": 1, "k": 12, "m": 20, "cores": 1},
)


@pytest.mark.parametrize("stored", range(4))
@pytest.mark.parametrize("point", POINTS, ids=str)
def test_every_pair_is_multiplied_however_it_is_stored(point, stored):
    how = {"trans_a": bool(stored & 1), "trans_b": bool(stored & 2)}
    check("matmul_batched_f32", point | how | {"accumulate": stored == 3})


@pytest.mark.parametrize("element", HALVES, ids=lambda element: element.name)
@pytest.mark.parametrize("stored", range(4))
def test_every_pair_of_halves_is_the_references_bit_for_bit(element, stored):
    how = {"trans_a": bool(stored & 1), "trans_b": bool(stored & 2)}
    name, tile = f"matmul_batched_{element.name}", {"b": 2, "n": 3, "m": 6}
    for point in POINTS:
        check_halves(name, point | how | {"accumulate": stored == 3})
    check_halves(name, {"batch": 3, "n": 7, "k": 9, "m": 11, "tile": tile} | how)


@pytest.mark.parametrize("tile", [None, {"b": 2, "n": 7, "m": 9, "k": 10}, {"b": 3}])
@pytest.mark.parametrize("accumulate", [False, True])
def test_tiles_of_matrices_in_l2_give_all_of_them(tile, accumulate):
    point = {"batch": 6, "n": 20, "k": 24, "m": 18, "tile": tile, "accumulate": accumulate}
    _, report = launch("matmul_batched_f32", point | {"trans_b": True}, TIGHT, guard=64)
    assert report.is_correct
    assert report.stray_writes == []


@pytest.mark.parametrize("stored", range(4))
def test_tiles_of_several_matrices_that_have_less_of_the_inner_dimension(stored):
    how = {"trans_a": bool(stored & 1), "trans_b": bool(stored & 2), "accumulate": stored == 0}
    check("matmul_batched_f32", {"batch": 2, "n": 4, "k": 3, "m": 2, "tile": {"k": 2}} | how)


def test_pairs_together_give_what_each_gives_alone():
    point = {"n": 8, "k": 16, "m": 8}
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((3, *s)).astype(np.float32) for s in ((8, 16), (16, 8)))
    together, _ = launch("matmul_batched_f32", point | {"batch": 3}, inputs={"A": a, "B": b})
    for i in range(3):
        alone, _ = launch("matmul_f32", point, inputs={"A": a[i], "B": b[i]})
        np.testing.assert_allclose(together["C"][i], alone["C"], rtol=1e-5, atol=1e-6)


def test_the_reference_is_torchs():
    point = {"batch": 3, "n": 4, "k": 5, "m": 6}
    check_with_torch("matmul_batched_f32", point, lambda torch, A, B: torch.bmm(A, B))

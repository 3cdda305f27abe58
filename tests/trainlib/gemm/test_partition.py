"""How products are cut into pieces: all of C once, everyone's own code, right on the chip."""

from itertools import product

import numpy as np
import pytest

from firmware.builder import Register
from tests.trainlib.cluster import random, run
from tests.trainlib.primitives import check
from trainlib.gemm.matmul import matmul_f32, timed_blocking
from trainlib.gemm.operands import Operands
from trainlib.gemm.partition import shares_of
from trainlib.reference import matmul as reference

IN_STRIPS = [(25, 36, 13), (9, 16, 26), (17, 13, 11)]


def operands(n, depth, m, **more):
    at = {"a": 0, "b": 4 * n * depth, "c": 4 * depth * (n + m)} | more
    lines = {"a_row": 4 * depth, "a_column": 4, "b_row": 4 * m, "b_column": 4, "c_row": 4 * m}
    return Operands(**at, bias=None, depth=depth, **lines)


def shares(x, n, m, cores):
    return shares_of(x, n, m, cores, lambda n, m, cores: timed_blocking(x, n, m, cores), True)[1]


def is_in_strips(found):
    return len(found) > 1


def placed(found):
    return [(s.first, s.cores, [(p.i, p.j, p.n, p.m) for p in s.pieces]) for s in found]


def test_25_by_13_is_cut_as_the_picture_shows():
    found = shares(operands(25, 36, 13), 25, 13, 8)
    assert placed(found) == [
        (0, 3, [(0, 0, 24, 5)]),
        (3, 5, [(0, 5, 25, 8), (24, 0, 1, 5)]),
    ]
    narrow, wide = (share.pieces[0].point for share in found)
    assert (narrow.rows, narrow.cols, narrow.split) == (4, 5, (3, 1))
    assert (wide.rows, wide.cols, wide.split) == (5, 4, (5, 1))


def test_one_core_has_two_pieces_each_with_a_block_of_its_own():
    [share] = shares(operands(25, 36, 13), 25, 13, 1)
    assert placed([share]) == [(0, 1, [(0, 0, 25, 5), (0, 5, 25, 8)])]
    assert [(p.point.rows, p.point.cols) for p in share.pieces] == [(4, 5), (5, 4)]


def test_a_core_for_what_is_left_over_is_spared_where_that_is_clearly_better():
    assert placed(shares(operands(17, 13, 11), 17, 11, 8)) == [
        (0, 1, [(16, 0, 1, 3), (15, 3, 2, 8)]),
        (1, 2, [(0, 0, 16, 3)]),
        (3, 5, [(0, 3, 15, 8)]),
    ]


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 7, 8])
@pytest.mark.sampled(2)
def test_every_sum_is_computed_once_and_every_core_has_one_share(cores):
    in_strips = 0
    for n, depth, m in product((1, 4, 9, 18, 25, 34), (2, 36), (3, 7, 13, 26)):
        found = shares(operands(n, depth, m), n, m, cores)
        times = np.zeros((n, m), int)
        for piece in (piece for share in found for piece in share.pieces):
            times[piece.i : piece.i + piece.n, piece.j : piece.j + piece.m] += 1
        assert (times == 1).all(), (n, depth, m)
        assert [s.first for s in found[1:]] == [s.first + s.cores for s in found[:-1]]
        assert (found[0].first, found[-1].first + found[-1].cores) == (0, cores)
        in_strips += is_in_strips(found)
    assert bool(in_strips) == (cores >= 2)


def test_large_products_and_those_with_one_register_for_two_addresses_are_in_one_share():
    assert not is_in_strips(shares(operands(55, 36, 23), 55, 23, 8))
    base = Register(10, "x")
    assert is_in_strips(shares(operands(25, 36, 13, a=base), 25, 13, 8))
    assert not is_in_strips(shares(operands(25, 36, 13, a=base, c=base), 25, 13, 8))


@pytest.mark.parametrize("cores", [3, 4, 8])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"trans_a": True, "accumulate": True},
        {"trans_b": True, "bias": "row"},
        {"bias": "column", "unroll": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize(("n", "k", "m"), IN_STRIPS)
@pytest.mark.sampled
def test_strips_are_right_and_nothing_else_is_written(n, k, m, cores, more):
    check("matmul_f32", {"n": n, "k": k, "m": m, "cores": cores, **more})


@pytest.mark.parametrize(("n", "depth", "m"), IN_STRIPS)
def test_strips_leave_addresses_in_registers_as_they_are(n, depth, m):
    a, b, bias = random(n, depth), random(depth, m, seed=1), random(n, seed=2)
    given = {"a": a, "b": b, "bias": bias, "c": random(n, m, seed=3)}

    def emit(k, team, a, b, bias, c):
        matmul_f32(k, team, a, b, c, n, depth, m, bias=bias, bias_by="row")

    left = run(emit, given, in_registers=True, writes=("c",))
    exact, bound = reference.matmul(a, b, bias[:, None])
    assert (abs(left.values["c"] - exact) <= bound).all()

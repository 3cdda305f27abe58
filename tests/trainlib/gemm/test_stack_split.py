"""Stacks of products that groups of cores share: each matrix once, and where it takes less."""

import pytest

from soc.chip.spec import load_chip
from tests.trainlib.primitives import check
from trainlib.gemm.stack_split import Stacked, stack_of
from trainlib.launch import launch
from trainlib.primitive.tile_spec import CodeCost

SMALL = {"n": 5, "k": 7, "m": 6}


def alike(cores: int) -> CodeCost:
    """Products that eight cores compute no sooner than one, and that have no code."""
    return CodeCost(100, 0)


def shared(cores: int) -> CodeCost:
    """Products that cores share without loss."""
    return CodeCost(8000 / cores, 0)


@pytest.mark.parametrize("cores", [1, 2, 3, 5, 6, 8, 16])
@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 30])
@pytest.mark.parametrize("cost", [alike, shared])
def test_each_matrix_is_in_one_part(count, cores, cost):
    found, stack = stack_of(count, cores, cost)
    assert [part.first for part in stack] == [0, *(part.first + part.count for part in stack)][:-1]
    assert sum(part.count for part in stack) == count
    assert all(cores % part.groups == 0 for part in stack)
    assert found.cycles > 0


def test_cores_that_gain_nothing_together_have_matrices_of_their_own():
    assert stack_of(16, 8, alike)[1] == [Stacked(0, 16, 8)]


def test_all_cores_share_what_they_share_without_loss():
    assert stack_of(16, 8, shared)[1] == [Stacked(0, 16, 1)]
    assert stack_of(5, 8, shared)[1] == [Stacked(0, 5, 1)]


@pytest.mark.parametrize("batch", [3, 8, 9, 13, 21])
@pytest.mark.parametrize("cores", [1, 3, 6, 8])
def test_groups_give_all_products(batch, cores):
    check("matmul_batched_f32", SMALL | {"batch": batch, "cores": cores})
    check("matmul_batched_f32", SMALL | {"batch": batch, "cores": cores, "accumulate": True})


@pytest.mark.parametrize("tile", [{}, {"b": 7}, {"b": 9, "k": 3}, {"b": 13, "n": 4}])
def test_groups_give_all_products_of_tiles(tile):
    tight = load_chip("pulp", {"l1.size": 0x4000})
    point = SMALL | {"batch": 22, "tile": tile, "trans_b": True}
    _, report = launch("matmul_batched_f32", point, tight, guard=64)
    assert report.is_correct
    assert report.stray_writes == []


def test_groups_take_fewer_cycles_than_all_cores_together():
    point = {"n": 4, "k": 27, "m": 4, "batch": 41, "warm": True}
    _, groups = launch("matmul_batched_f32", point)
    _, together = launch("matmul_batched_f32", point | {"split": [4, 2]})
    assert groups.cycles < 0.6 * together.cycles

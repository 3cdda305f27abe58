"""Products with an inner dimension of one: every shape, block and team."""

import pytest

from soc.chip.spec import load_chip
from tests.trainlib.primitives import WARM, check
from trainlib.launch import launch

SHAPES = [(1, 1), (1, 9), (9, 1), (5, 7), (13, 33), (64, 6)]
BLOCKS = [{}, {"rows": 1, "cols": 1}, {"rows": 2}, {"cols": 3}]


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.sampled
def test_every_shape_and_team_is_right(n, m, cores, accumulate):
    check("matmul_f32", {"n": n, "k": 1, "m": m, "cores": cores, "accumulate": accumulate})


@pytest.mark.parametrize("trans", ["trans_a", "trans_b"])
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_is_right_however_operands_lie(block, trans):
    check("matmul_f32", {"n": 11, "k": 1, "m": 14, "cores": 2, trans: True, **block})


def test_float_registers_are_used_where_there_are_any():
    chip = load_chip("pulp", {"core.float_registers": "f"})
    _, report = launch("matmul_f32", {"n": 11, "k": 1, "m": 14, "accumulate": True}, chip)
    assert report.is_correct


def test_an_element_takes_little_more_than_its_load_product_and_store():
    point = {"inputs": 576, "outputs": 32, "accumulate": True, "cores": 1}
    chip = load_chip("pulp", {"icache.kind": "ideal", "l1.size": 0x40000})
    _, report = launch("linear_wg_f32", point, chip)
    assert report.cycles / report.macs < 3.4
    assert WARM.icache == chip.icache

"""Maps by tiles: their sizes follow what the code for an element takes, no core waits to copy."""

import pytest

from soc.chip.spec import load_chip
from trainlib.launch import launch
from trainlib.registry import KERNELS

WARM = load_chip("pulp", {"icache.kind": "ideal"})
COUNT = 2048


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ("relu_fw_f32", {}),
        ("relu_fw_f16", {}),
        ("exp_bf16", {}),
        ("gelu_bw_f32", {}),
        ("reciprocal_f32", {}),
        ("sgd_f32", {"lr": 0.1, "weight_decay": 0.01}),
        ("sgd_bf16", {"lr": 0.1}),
        ("adam_f32", {"gradient": "bf16"}),
        ("adam_f32", {"lr": "operand", "unroll": 1}),
        ("adamw_f16", {}),
    ],
)
def test_the_rate_of_a_map_is_that_of_the_chip(kernel, options):
    _, report = launch(kernel, options | {"shape": (COUNT,)}, WARM)
    family = KERNELS[kernel]
    rate = family.tiling(family.arguments(shape=(28 * COUNT,), **options)).rate

    assert report.is_correct
    assert rate == pytest.approx(COUNT / report.cycles, rel=0.1)


def test_no_core_waits_for_the_dma_to_take_its_copies():
    _, report = launch("adam_f32", {"shape": (8 * COUNT,), "tile": {}})
    rows = [row for row in report.result.rows("harts") if row["hart"].startswith("core")]

    assert report.is_correct
    assert all(row["store_external"] < 0.02 * row["cycles"] for row in rows)
    assert report.cycles < 6 * 8 * COUNT  # 4.5 of an element are computing

"""The study of rooflines: ceilings that are reached and never passed."""

import pytest

from pulpsim.commands.study import roofline, roofs
from pulpsim.commands.study.kernels import SIZES
from soc.chip.spec import load_chip
from tests.pulpsim.commands.study.sweep import rows_of


@pytest.fixture(scope="module")
def rows() -> list:
    kernels = ["matmul_f32", "dwconv2d_fw_f32", "linear_wg_f32", "matmul_bf16"]
    return rows_of(roofline.STUDY, {"kernels": kernels})


def test_ceilings_are_reached_but_not_passed(rows: list) -> None:
    found = {row["what"]: row for row in rows if not row["against"]}
    assert {name: row["nominal"] for name, row in found.items()} == {
        "FPU": 2 * 8,
        "FPU, halves": 4 * 8,
        "L1": 4 * 8,
        "L2": None,
        "DMA": 8,
    }
    for name, least in (("FPU", 0.99), ("FPU, halves", 0.99), ("L1", 0.99), ("DMA", 0.9)):
        assert least < found[name]["measured"] / found[name]["nominal"] < 1


def test_the_ceilings_are_worked_out_from_the_programs(rows: list) -> None:
    found = {row["what"]: row["measured"] for row in rows if not row["against"]}
    # All but the marker, the loop's set-up and a nop are multiply-adds, or loads.
    assert found["FPU"] == 16 * 2048 / (2048 + 3)
    assert found["L1"] == 32 * 1024 / (1024 + 3)
    # A load from L2 takes 16 cycles; cores that begin together follow each other at most.
    assert found["L2"] == pytest.approx(8 * 4 / 16, rel=0.01)


def test_no_kernel_is_above_its_roof(rows: list) -> None:
    kernels = [row for row in rows if row["against"]]
    assert len(kernels) == 4 * 2
    for row in kernels:
        most = 32 if row["what"] == "matmul_bf16" else 16
        assert 0 < row["performance"] <= row["roof"] <= most
        assert row["share"] == row["performance"] / row["roof"]


def test_what_a_kernel_computes_and_moves_is_counted(rows: list) -> None:
    row = next(r for r in rows if (r["what"], r["against"]) == ("matmul_f32", "DMA"))
    n = SIZES["matmul_f32"]["n"]
    assert row["flops"] == 2 * n**3
    assert row["bytes"] == 2 * 4 * n**2  # A and B to L1; C, the other way, is less


def test_halves_are_held_against_their_own_ceiling_and_move_half_the_bytes(rows: list) -> None:
    single, half = (
        next(r for r in rows if (r["what"], r["against"]) == (name, "DMA"))
        for name in ("matmul_f32", "matmul_bf16")
    )
    assert (half["flops"], 2 * half["bytes"]) == (single["flops"], single["bytes"])
    chip = load_chip("pulp", {"core.small_floats": False})
    assert roofs.HALVES not in roofs.ceilings(chip)
    assert roofs.issue_roof(1, 1.0, 2) == pytest.approx(4 / (1 + 1))


def test_a_core_that_loads_two_words_for_each_multiply_add_does_a_third_of_its_flops() -> None:
    assert roofs.issue_roof(1, 2 / (2 * 4)) == pytest.approx(2 / 3)


def test_the_roof_of_l1_is_that_of_its_banks_where_they_are_few() -> None:
    chip = load_chip("pulp", {"l1.banks": 4})
    found = roofs.ceilings(chip)
    assert found["L1"].nominal == 4 * 4

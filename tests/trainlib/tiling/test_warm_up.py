"""Warm measurements: everything runs twice, the second time counts, from the same values."""

import pytest

from firmware.builder import KernelError
from trainlib.launch import launch, program

SHAPE = {"n": 9, "k": 20, "m": 11}
TILED = SHAPE | {"tile": {"n": 4}}


@pytest.mark.parametrize("shape", [SHAPE, TILED], ids=["resident", "tiled"])
def test_the_second_time_is_faster_and_is_the_one_that_counts(shape, monkeypatch):
    monkeypatch.setattr("firmware.fetch_ahead.LEAST", 1 << 20)  # both execute the same
    _, cold = launch("matmul_f32", shape)
    _, warm = launch("matmul_f32", shape | {"warm": True})
    assert cold.is_correct
    assert warm.is_correct
    assert warm.regions["compute"].count == 1
    once, again = (report.regions["compute"].instructions for report in (cold, warm))
    assert again == pytest.approx(once, rel=0.01)  # waits for the DMA take more or fewer rounds
    assert warm.stalls["fetch"] < cold.stalls["fetch"] / 2
    assert warm.cycles < cold.cycles - 200
    assert warm.result.cycles > cold.result.cycles + warm.cycles


def test_what_is_read_and_overwritten_is_put_back_before_the_second_time():
    _, report = launch("matmul_f32", SHAPE | {"accumulate": True, "warm": True})
    assert report.is_correct
    assert report.regions["dma_in"].count == 3


def test_json_says_whether_it_was_warm():
    _, cold = launch("matmul_f32", SHAPE)
    _, warm = launch("matmul_f32", SHAPE | {"warm": True})
    assert [report.to_json()["warm"] for report in (cold, warm)] == [False, True]


def test_tiles_of_what_is_read_and_overwritten_are_not_measured_warm():
    message = (
        r"^matmul_f32: warm with C in L2, which is read and overwritten; leave warm out, or take "
        r"tensors that fit L1$"
    )
    with pytest.raises(KernelError, match=message):
        program("matmul_f32", TILED | {"accumulate": True, "warm": True})

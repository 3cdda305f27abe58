"""Sizes of tiles for one phase of a primitive alone."""

import pytest

from firmware.builder import KernelError
from soc.chip.spec import load_chip
from trainlib.launch import launch, program

SHAPE = {"steps": 3, "inputs": 5, "hidden": 7, "batch": 2}


def test_sizes_of_one_phase_are_written_as_a_table_or_with_a_dot():
    built = [
        program("rnn_bw_f32", SHAPE | {"tile": tile}).program.segments
        for tile in ({}, {"dWx": {"rows": 2}}, {"dWx.rows": 2}, {"rows": 2})
    ]
    assert built[0] != built[1] == built[2] != built[3] != built[0]


def test_where_the_smallest_tile_leaves_no_room_for_a_table_there_are_phases():
    phases = []
    for size in (0xFE80, 0xFE00):
        chip = load_chip("pulp", {"l1.size": size})
        _, report = launch("batchnorm_bw_f32", {"c": 8, "hw": 2304}, chip)
        assert report.is_correct
        phases.append("gradients" in report.regions)
    assert phases == [False, True]


def test_sizes_of_one_phase_are_before_those_of_all(monkeypatch):
    monkeypatch.setattr("firmware.fetch_ahead.LEAST", 1 << 20)  # other sizes, other code

    def cycles(**tile):
        _, report = launch("rnn_bw_f32", SHAPE | {"tile": tile})
        assert report.is_correct
        return {name: region.cycles for name, region in report.regions.items()}

    both = {"rows": 1, "dWx": {"rows": 6}}
    all_alike, alone, mixed = cycles(rows=1), cycles(dWx={"rows": 6}), cycles(**both)
    assert mixed["dX"] == pytest.approx(all_alike["dX"], rel=0.1)
    assert mixed["dWx"] == pytest.approx(alone["dWx"], rel=0.1)
    assert all_alike["dX"] > 1.1 * alone["dX"]
    assert all_alike["dWx"] > 1.2 * alone["dWx"]


@pytest.mark.parametrize(
    ("tile", "message"),
    [
        (
            {"dY": {"rows": 2}},
            "tile.dY.rows = 2: no such phase; there are steps, dX, dWx, dbias_x, dbias_h, dWh",
        ),
        (
            {"dX": {"steps": 2}},
            "tile.dX.steps = 2: no such dimension; there are rows, inputs, sums",
        ),
        ({"dX": {"rows": 7}}, "tile.dX.rows = 7: a size is from 1 to 6"),
        ({"dX": {"rows": 0}}, "tile.dX.rows = 0: a size is from 1 to 6"),
    ],
    ids=str,
)
def test_phases_and_sizes_that_there_are_not_are_refused(tile, message):
    with pytest.raises(KernelError, match=f"^rnn_bw_f32: {message}$".replace(".", r"\.")):
        program("rnn_bw_f32", SHAPE | {"tile": tile})

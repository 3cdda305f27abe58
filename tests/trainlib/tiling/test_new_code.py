"""Functions of tiles that are new: their code is fetched before the first tile that needs it."""

import numpy as np
import pytest

from soc.chip.spec import load_chip
from soc.icache.private_cache import LINE_BYTES
from soc.run import prepare, run_program
from trainlib.launch import launch, program
from trainlib.tiling.plan import Plan

PULP = load_chip("pulp")
SIZES = {"inputs": 445, "outputs": 7, "batch": 11, "relu": True, "tile": {}}
LAYER = "linear_fw_f32", SIZES


def issued(built):
    """Cycle and address of each instruction."""
    issues = run_program(built, PULP, issue_trace=True).issues
    return issues["cycle"], issues["pc"]


def function(built, number):
    """The addresses of a function of tiles."""
    [symbol] = [s for s in built.symbols if s.name == f"tile_{number}"]
    ends = [s.address for s in built.symbols if s.address > symbol.address]
    return range(symbol.address, min(ends))


def test_most_of_a_later_function_is_in_the_shared_cache_when_cores_come_to_it():
    built = program(*LAYER).program
    cycles, places = issued(built)
    code = function(built, 1)
    executed = np.isin(places, code)
    begun = prepare(built, PULP, "compiled")
    begun.run_on(int(cycles[executed].min()))

    wanted = {int(place) // LINE_BYTES for place in places[executed]}
    there = set(np.unique(begun.chip.icache["bank"]["lines"]).tolist())
    assert len(wanted) > 20
    assert len(wanted & there) / len(wanted) > 0.85


def test_a_layer_whose_entries_tell_what_is_new_ends_sooner(monkeypatch):
    told = launch(*LAYER)[1]
    monkeypatch.setattr(Plan, "has_code", False)
    untold = launch(*LAYER)[1]
    assert told.is_correct
    assert untold.is_correct
    assert not told.stray_writes
    assert told.cycles < 0.97 * untold.cycles


@pytest.mark.parametrize("tile", [{"co": 24}, {"ci": 40}])
def test_both_engines_take_the_same_cycles(tile):
    layer = "linear_fw_f32", {"inputs": 90, "outputs": 52, "batch": 5, "tile": tile}
    reports = [launch(*layer, engine=engine)[1] for engine in ("compiled", "event")]
    assert all(report.is_correct for report in reports)
    assert reports[0].cycles == reports[1].cycles

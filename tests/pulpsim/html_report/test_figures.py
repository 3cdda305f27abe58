import pytest

from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.losses import losses
from soc.trace.reader import TraceError
from tests.pulpsim.html_report.traces import conflict, figures, issues, sleep

COUNTS = [
    {"instructions": 10, "l1_contention": 3, "event": 7, "loads": 5},
    {"instructions": 15, "l1_contention": 0, "event": 5, "loads": 5},
]
BANKS = [{"accesses": 9, "conflicts": 3}, {"accesses": 1, "conflicts": 0}]


def test_what_is_not_recorded_is_taken_from_the_counters_of_the_run() -> None:
    rows = [conflict(4, 0, winner=1, bank=0)]
    run = figures(rows, cycles=20, filters=["kind=conflict"], counts=COUNTS, l1=BANKS, banks=2)
    assert [hart.instructions for hart in run.harts] == [10, 15]
    assert [hart.stalls for hart in run.harts] == [{"l1_contention": 3, "event": 7}, {"event": 5}]
    assert run.banks == ((9, 3), (1, 0))
    assert {loss.name: loss.cycles for loss in losses(Evidence(run))} == {
        "Asleep at the event unit": 12,
        "Conflicts at L1's banks": 3,
    }


def test_what_is_recorded_whole_is_summed_up() -> None:
    rows = [*issues(0, 0, 10), *sleep(0, 10, 10, at_barrier=False), *issues(1, 0, 20)]
    run = figures(rows, cycles=20, counts=COUNTS, l1=BANKS)
    assert [hart.instructions for hart in run.harts] == [10, 20]


@pytest.mark.parametrize("counts", [COUNTS[:1], [{}, {}], 5, [1, 2]])
def test_counters_that_are_none_are_refused(counts: object) -> None:
    message = r"^hand\.trace: damaged: its header tells no counters$"
    with pytest.raises(TraceError, match=message):
        figures([], filters=["hart=0"], counts=counts, l1=BANKS)


def test_what_a_broken_recording_has_is_explained_as_far_as_it_goes() -> None:
    rows = [*issues(0, 0, 10), *sleep(0, 10, 5, at_barrier=False), *issues(0, 15, 5)]
    run = figures(rows, harts=1, complete=False)
    assert run.notes == ("the trace is not complete: the recording broke off",)
    assert [loss.name for loss in losses(Evidence(run))] == ["Asleep without work"]

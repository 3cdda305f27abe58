from pulpsim.html_report.nesting import nested
from pulpsim.html_report.recording import Recording
from pulpsim.html_report.stall_groups import PART
from tests.pulpsim.html_report.traces import CODE, REGION, issues, sleep, stall, trace

NAMES = {"0": "conv", "1": "compute", "2": "tile", "3": "relu"}


def mark(cycle: int, number: int, begins: bool, hart: int = 0) -> tuple:
    return cycle, REGION, hart, number, int(begins), CODE


def test_regions_lie_inside_those_that_are_open_on_the_same_hart() -> None:
    rows = [
        mark(0, 0, True),
        mark(1, 1, True),
        mark(2, 2, True),
        mark(4, 2, False),
        mark(5, 2, True),
        mark(9, 2, False),
        mark(10, 1, False),
        mark(11, 0, False),
        mark(12, 3, True),
        mark(13, 1, True),
        mark(15, 1, False),
        mark(16, 3, False),
        mark(3, 0, True, hart=1),
        mark(19, 0, False, hart=1),
    ]
    rows += issues(0, 0, 20) + issues(1, 0, 20)
    table = nested(Recording(trace(rows, regions=NAMES)))
    assert [(each.path, each.harts, each.entries, each.longest) for each in table] == [
        (("conv",), 2, 2, 16),
        (("conv", "compute"), 1, 1, 9),
        (("conv", "compute", "tile"), 1, 2, 6),
        (("relu",), 1, 1, 4),
        (("relu", "compute"), 1, 1, 2),
    ]
    assert [each.cycles[PART["work"]] for each in table] == [27, 9, 6, 4, 2]


def test_a_region_has_the_part_of_each_stall_that_lies_in_it() -> None:
    rows = [
        *issues(0, 0, 2),
        mark(2, 0, True),
        stall(0, 2, "fetch", 4),
        *issues(0, 6, 2),
        *sleep(0, 8, 6, at_barrier=True),
        mark(11, 0, False),
    ]
    (region,) = nested(Recording(trace(rows, regions=NAMES, cycles=14)))
    assert region.cycles.sum() == region.longest == 9
    assert region.cycles[PART["fetch"]] == 4
    assert region.cycles[PART["work"]] == 2
    assert region.cycles[PART["barrier"]] == 3


def test_regions_that_follow_each_other_at_once_are_not_inside_each_other() -> None:
    rows = [mark(1, 0, True), mark(5, 0, False), mark(5, 3, True), mark(9, 3, False)]
    table = nested(Recording(trace(rows + issues(0, 0, 10), regions=NAMES)))
    assert [each.path for each in table] == [("conv",), ("relu",)]


def test_a_region_without_a_name_is_told_by_its_number() -> None:
    (region,) = nested(Recording(trace([mark(1, 9, True), mark(3, 9, False), *issues(0, 0, 4)])))
    assert region.path == ("region 9",)


def test_a_program_without_regions_has_none() -> None:
    assert nested(Recording(trace(issues(0, 0, 4)))) == []

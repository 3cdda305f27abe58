import re

import numpy as np

from pulpsim.html_report.bins import Bins
from pulpsim.html_report.heat import EVEN, SQUARES, bounds, heat_map, heat_rows, levels
from pulpsim.html_report.recording import Recording
from pulpsim.html_report.style import LEVELS
from pulpsim.html_report.svg import (
    LABELS,
    PLOT,
    area,
    cells,
    counted,
    element,
    shown,
    ticks,
    time_axis,
)
from pulpsim.html_report.timeline import abbreviated
from tests.pulpsim.html_report.traces import conflict, trace


def test_every_step_of_colour_ends_where_the_legend_says() -> None:
    for growth in (EVEN, SQUARES):
        ends = bounds(8.0, growth)
        assert ends[-1] == 8.0
        assert levels(ends, 8.0, growth).tolist() == list(range(1, LEVELS))
        assert levels(np.array([0.0, 1e-9, 8.0]), 8.0, growth).tolist() == [0, 1, LEVELS - 1]


def test_areas_cover_what_their_heights_say() -> None:
    random = np.random.default_rng(2)
    lower = random.integers(0, 10, 40) / 2
    upper = lower + random.integers(0, 10, 40) / 2
    covered = _covered(area(upper, lower, 50), 40)
    np.testing.assert_allclose(covered, upper - lower)


def test_cells_cover_the_bins_of_a_value() -> None:
    values = np.array([1, 1, 0, 2, 1, 1, 1])
    assert _covered(cells(values, 1, 0, 1), 7).tolist() == [1, 1, 0, 0, 1, 1, 1]
    assert cells(values, 3, 0, 1) == ""


def _covered(path: str, width: int) -> np.ndarray:
    """The height of a path's rectangles in each column."""
    covered = np.zeros(width)
    for x, wide, high in re.findall(r"M(\d+) [\d.]+h(\d+)v([\d.]+)h-\d+z", path):
        covered[int(x) : int(x) + int(wide)] += float(high)
    return covered


def test_round_numbers_are_on_axes() -> None:
    assert ticks(1000, 5) == [0, 200, 400, 600, 800, 1000]
    assert ticks(7, 8) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert ticks(0) == [0]


def test_the_axis_of_time_has_the_cycles_of_the_run_at_their_places() -> None:
    drawn = time_axis(Bins.of(1500, 1000), 0, 10)
    places = dict(re.findall(r'<text x="([\d.]+)"[^>]*>([\d,]+)</text>', drawn))
    assert list(places.values())[:2] == ["1,600", "1,800"]
    assert float(next(iter(places))) == LABELS + PLOT * 100 / 1000


def test_rows_that_a_pointer_finds_are_where_they_are_drawn() -> None:
    recording = Recording(trace([conflict(3, 0, 1, bank=2)], cycles=10))
    (row,) = [top for top, values in heat_rows(recording) if values.any()]
    assert f"M3 {row:g}h1" in heat_map(recording)


def test_text_is_escaped_once() -> None:
    assert shown("a < b & \x07") == "a &lt; b &amp; \\x07"
    assert element("text", shown('"<"'), x=1.5, data_name='"') == (
        '<text x="1.5" data-name="&quot;">&quot;&lt;&quot;</text>'
    )


def test_names_that_are_too_long_keep_their_ends() -> None:
    assert abbreviated("conv2d_0_fw") == "conv2d_0_fw"
    assert abbreviated("a_rather_long_region_name_12") == "a_rat…_name_12"


def test_one_thing_is_not_many() -> None:
    assert counted(1, "barrier") == "1 barrier"
    assert counted(2000, "copy", "copies") == "2,000 copies"

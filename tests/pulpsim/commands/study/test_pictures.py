"""Pictures and paragraphs: they show what the rows say."""

import re
from itertools import pairwise

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pulpsim.commands.study import banking, dma, roofline, scaling, stride, traffic
from pulpsim.commands.study.plot_style import LINES, PART_COLOURS, pictures
from pulpsim.commands.study.study import Row, Study


def drawn(study: Study, rows: list[Row]) -> list[Axes]:
    figure = Figure(figsize=study.size, layout="constrained")
    study.draw(figure, rows)
    figure.draw_without_rendering()
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def line_of(axes: Axes, label: str) -> tuple[list[float], list[float]]:
    (line,) = [line for line in axes.get_lines() if line.get_label() == label]
    return list(line.get_xdata()), list(line.get_ydata())


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def banks_row(cores: int, banks: int, cycles: int, share: float) -> Row:
    point = {"kernel": "k", "cores": cores, "banks": banks, "cycles": cycles}
    return point | {"conflict_share": share, "conflict_cycles": int(share * cycles)}


BANKS = [
    banks_row(1, 4, 800, 0.0),
    banks_row(1, 8, 800, 0.0),
    banks_row(8, 4, 150, 0.25),
    banks_row(8, 8, 100, 0.125),
]


def test_the_map_of_banking_has_every_share_and_lines_end_at_one() -> None:
    upper, lower = drawn(banking.STUDY, BANKS)
    assert texts(upper) == ["0.0", "0.0", "25.0", "12.5"]
    assert upper.images[0].get_array().tolist() == [[0, 0], [25, 12.5]]
    assert line_of(lower, "1 core") == ([4, 8], [1, 1])
    assert line_of(lower, "8 cores") == ([4, 8], [1.5, 1])


def test_the_text_of_banking_says_where_conflicts_cost_most_and_how_many_banks_are_enough() -> None:
    assert banking.explain(BANKS) == (
        "Conflicts cost most in k on 8 cores and 4 banks: 25.0 % of the cores' cycles. By banks "
        "per core, the mean over kernels with several cores is 25.0 % with 0.5, 12.5 % with 1. "
        "k on 8 cores takes 1.50 times as many cycles with 4 banks as at its best, and 8 banks "
        "are enough to stay within 2 % of that."
    )
    assert banking.explain(BANKS[:2]) == "No core ever waits for a bank."


def stride_row(stride: int, offset: int, conflicts: int, expected: int, is_exact: bool) -> Row:
    row = {"cores": 8, "banks": 16, "stride": stride, "offset": offset, "reads": 1000}
    row |= {"conflicts": conflicts, "closed_form": expected, "is_exact": is_exact}
    return row | {"difference": conflicts - expected, "wait": conflicts / 1000}


STRIDES = [
    stride_row(1, 0, 28, 28, True),
    stride_row(1, 1, 0, 0, True),
    stride_row(16, 0, 7000, 7000, True),
    stride_row(16, 1, 99, 100, False),
]


def test_the_map_and_the_lines_of_strides_are_their_waits() -> None:
    left, right = drawn(stride.STUDY, STRIDES)
    assert texts(left) == ["0.03", "0", "7.00", "0.10"]
    assert left.images[0].get_array().tolist() == [[0.028, 0], [7, 0.099]]
    assert line_of(right, "offset 0") == ([0, 1], [0.028, 7])
    crosses = [line for line in right.get_lines() if line.get_marker() == "x"]
    assert [list(line.get_ydata()) for line in crosses] == [[], [0.1], []]


def test_many_strides_leave_room_for_their_names_and_colours_alone() -> None:
    rows = [stride_row(s, o, s % 5, s % 5, True) for s in range(40) for o in (0, 1, 2, 4)]
    left, right = drawn(stride.STUDY, rows)
    names = [str(stride) for stride in range(0, 40, 3)]
    assert [label.get_text() for label in left.get_yticklabels()] == names
    assert [label.get_text() for label in right.get_xticklabels()] == names
    assert texts(left) == []
    assert line_of(right, "offset 0-2, 4")[0] == list(range(40))


def test_the_text_of_strides_says_how_far_the_closed_form_holds() -> None:
    assert stride.explain(STRIDES) == (
        "Reads of 8 cores from 16 banks. 1 of 4 pairs of stride and offset have no conflict at "
        "all; the worst, stride 16 with offset 0, makes a read wait 7.00 cycles on average. The "
        "closed form is exact for 3 of them; each is as worked out. It is an estimate for 1 more, "
        "1.0 % off at most. Walking down a column whose rows fill all banks (stride 16), the "
        "cores wait 7.00 cycles for each read if all begin in the same bank, and 0.10 if each "
        "begins one word after the one before."
    )
    wrong = [*STRIDES[:2], stride_row(16, 0, 7001, 7000, True)]
    assert "exact for 3 of them; 1 of these differ." in stride.explain(wrong)


def test_a_conflict_that_is_not_as_worked_out_stands_in_the_table() -> None:
    (table,) = stride.tables([stride_row(16, 0, 7001, 7000, True), STRIDES[3]])
    assert [list(column.cells) for column in table.columns] == [
        ["16"],
        ["7,001 not 7,000"],
        ["99~100"],
    ]


def scaling_row(cores: int, cycles: int, lost: dict[str, int]) -> Row:
    row: Row = {"kernel": "k", "cores": cores, "cycles": cycles, "speed_up": 1000 / cycles}
    row |= {"efficiency": 1000 / cycles / cores, "lost": cores * cycles - 1000}
    return row | {scaling._column(part): lost.get(part, 0) for part in scaling.PARTS}


SCALING = [
    scaling_row(1, 1000, {}),
    scaling_row(4, 400, {"DMA": 300, "conflicts": 350, "pipeline": -50}),
]


def test_bars_of_scaling_add_up_to_all_core_cycles() -> None:
    left, right = drawn(scaling.STUDY, SCALING)
    assert line_of(left, "k") == ([1, 4], [1, 2.5])
    assert line_of(left, "ideal") == ([1, 4], [1, 4])
    heights = [[bar.get_height() for bar in bars] for bars in right.containers]
    assert [sum(bars) for bars in zip(*heights, strict=True)] == pytest.approx([100, 100])
    labels = [bars.get_label() for bars in right.containers]
    assert labels == ["useful", *scaling.PARTS]
    tops = [bars[1].get_y() + bars[1].get_height() for bars in right.containers]
    assert max(tops) == pytest.approx(100 + 100 * 50 / 1600)  # what is gained is below zero
    assert min(tops) == pytest.approx(-100 * 50 / 1600)


def test_bars_of_many_kernels_stand_in_several_rows() -> None:
    rows = [row | {"kernel": f"k{n}"} for n in range(12) for row in SCALING]
    speed, *bars = drawn(scaling.STUDY, rows)
    assert [one.get_title() for one in bars] == [f"k{n}" for n in range(12)]
    places = [one.get_subplotspec() for one in bars]
    assert {(place.rowspan.start, place.colspan.start) for place in places} == {
        (row, column) for row in range(3) for column in range(1, 5)
    }
    assert speed.get_subplotspec().rowspan == range(3)
    assert speed.figure.get_figwidth() < 12


def test_the_text_of_scaling_names_the_largest_losses() -> None:
    assert scaling.explain(SCALING) == (
        "k is 2.50 times as fast on 4 cores as on one; of what is lost most goes to conflicts "
        "(58 %) and DMA (50 %). Parts add up to the loss exactly; a negative one is a gain over a "
        "single core."
    )


def traffic_row(pattern: str, rate: float, throughput: float, latency: float) -> Row:
    row = {"pattern": pattern, "rate": rate, "cores": 8, "banks": 16, "accesses": 100}
    row |= {"throughput": throughput, "latency": latency, "bound": 0.8}
    is_uniform = pattern == "uniform"
    model = {"model_throughput": 0.66, "model_latency": 1.5}
    return row | (model if is_uniform else dict.fromkeys(model))


TRAFFIC = [traffic_row("uniform", 1.0, 0.6, 1.25), traffic_row("stride 8", 1.0, 0.4, 3.0)]


def test_lines_of_traffic_are_throughputs_and_latencies() -> None:
    left, right = drawn(traffic.STUDY, TRAFFIC)
    assert line_of(left, "uniform") == ([1.0], [0.6])
    assert line_of(right, "stride 8") == ([1.0], [3.0])
    assert line_of(left, "model of uniform traffic") == ([1.0], [0.66])
    assert line_of(right, "model of uniform traffic") == ([1.0], [1.5])


def test_many_patterns_of_traffic_are_drawn_and_no_two_lines_alike() -> None:
    rows = [traffic_row(f"stride {n}", rate, 0.4, 3.0) for n in range(50) for rate in (0.5, 1.0)]
    left, _ = drawn(traffic.STUDY, rows)
    lines = [line for line in left.get_lines() if line.get_label().startswith("stride")]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines) == 50


def test_traffic_without_any_load_has_no_latency_and_its_axis_is_not_upside_down() -> None:
    row = traffic_row("uniform", 0.0, 0.0, 0.0) | {"latency": None, "accesses": 0}
    for axes in drawn(traffic.STUDY, [row | dict.fromkeys(("model_throughput", "model_latency"))]):
        low, high = axes.get_ylim()
        assert low < 1 < high
    assert traffic.explain([row | {"model_throughput": None, "cores": 1}]) == (
        "Loads of 1 core from 16 banks."
    )


def test_the_text_of_traffic_compares_with_bound_and_model() -> None:
    text = traffic.explain(TRAFFIC)
    assert "uniform: at rate 1 a core does 0.600 loads in a cycle, 75 % of what" in text
    assert "stride 8: at rate 1 a core does 0.400 loads in a cycle, 50 % of what" in text
    assert "is 10.0 % too high at worst, at rate 1;" in text


def dma_row(direction: str, size: int, rate: float, bandwidth: float, slow: float | None) -> Row:
    row = {"direction": direction, "burst": 256, "size": size, "rate": rate}
    return row | {"bandwidth": bandwidth, "dma_refused": rate / 4, "slow_down": slow}


COPIES = [
    dma_row(dma.TO_L1, 64, 0.0, 2.0, None),
    dma_row(dma.TO_L1, 512, 0.0, 6.5, None),
    dma_row(dma.TO_L1, 1024, 0.0, 7.0, None),
    dma_row(dma.BOTH, 64, 0.0, 2.0, None),
    dma_row(dma.BOTH, 1024, 0.0, 12.0, None),
    dma_row(dma.TO_L1, 1024, 1.0, 5.0, 1.03),
    dma_row(dma.BOTH, 1024, 1.0, 8.0, 1.08),
]


def test_lines_of_the_dma_are_bandwidths_and_what_cores_lose() -> None:
    left, right = drawn(dma.STUDY, COPIES)
    assert line_of(left, "bursts of 256 B") == ([64, 512, 1024], [2, 6.5, 7])
    at, slower = line_of(right, dma.BOTH)
    assert (at, slower) == ([8.0], [pytest.approx(8)])


def test_the_text_of_the_dma_says_who_loses_what() -> None:
    assert dma.explain(COPIES) == (
        "L2 to L1: 7.00 of 8 bytes in a cycle at best, with bursts of 256 bytes and copies of "
        "1,024, two under way; copies of 512 bytes reach 90 % of that. both ways: 12.00 of 16 "
        "bytes in a cycle at best, with bursts of 256 bytes and copies of 1,024, two under way; "
        "larger ones, which were not tried, may be faster; copies of 64 bytes reach less than 90 % "
        "of that. The cores lose most, 8.0 %, beside copies both ways when they load at rate 1; "
        "the DMA is slowest, 5.00 bytes in a cycle, from L2 to L1 at rate 1, when 25 % of its "
        "requests to L1 are refused."
    )


def test_the_text_of_the_dma_says_where_the_smallest_size_is_enough() -> None:
    rows = [dma_row(dma.TO_L1, size, 0.0, 7.0 + size / 4096, None) for size in (512, 1024)]
    text = dma.explain(rows)
    assert text.endswith("copies of 512 bytes, the smallest tried, reach 90 % of that.")
    assert "larger ones, which were not tried, may be faster." in dma.explain(rows[:1])


def kernel_row(name: str, against: str, performance: float, roof: float, by: str) -> Row:
    row = {"what": name, "against": against, "intensity": 1.0, "performance": performance}
    return row | {"roof": roof, "bound_by": by, "share": performance / roof}


ROOFS: list[Row] = [
    {"what": "FPU", "against": "", "unit": "flops", "nominal": 16, "measured": 15.9},
    {"what": "L1", "against": "", "unit": "bytes", "nominal": 32, "measured": 31.9},
    {"what": "L2", "against": "", "unit": "bytes", "nominal": None, "measured": 2.0},
    {"what": "DMA", "against": "", "unit": "bytes", "nominal": 8, "measured": 7.0},
    kernel_row("a", "L1", 8.0, 10.0, "issue"),
    kernel_row("b", "L1", 2.0, 10.0, "issue"),
    kernel_row("a", "DMA", 6.0, 8.0, "DMA"),
]


def test_kernels_are_points_below_their_roofs() -> None:
    left, right = drawn(roofline.STUDY, ROOFS)
    points = [line for line in left.get_lines() if line.get_linestyle() == "None"]
    assert [(p.get_xdata()[0], p.get_ydata()[0]) for p in points] == [(1.0, 8.0), (1.0, 2.0)]
    at, roof = line_of(left, "L1: 32 bytes in a cycle")
    assert roof == [min(32 * x, 16) for x in at]
    at, roof = line_of(right, "L2: 2 bytes in a cycle")
    assert roof == [min(2 * x, 16) for x in at]
    assert texts(left) == texts(right) == ["FPU: 16 flops in a cycle"]


def test_kernels_close_to_the_roof_leave_several_numbers_on_the_axis() -> None:
    left, _ = drawn(roofline.STUDY, [*ROOFS[:4], kernel_row("a", "L1", 14.0, 16.0, "FPU")])
    low, high = left.get_ylim()
    assert sum(low <= tick <= high for tick in left.get_yticks()) >= 3


def test_the_text_of_rooflines_names_the_nearest_and_the_farthest() -> None:
    assert roofline.explain(ROOFS) == (
        "In the computation, its caches warm, a comes to 80 % of what one instruction in a cycle "
        "allows, b to 20 % of what one instruction in a cycle allows. On the whole way from L2 to "
        "L2, a comes to 75 % of what the DMA allows. The DMA brings 7.00 bytes in a cycle, 3.5 "
        "times what all cores get that load from L2 themselves, 2.00."
    )


EACH = pytest.mark.parametrize(
    ("study", "rows"),
    [
        (banking.STUDY, BANKS),
        (stride.STUDY, STRIDES),
        (scaling.STUDY, SCALING),
        (traffic.STUDY, TRAFFIC),
        (dma.STUDY, COPIES),
        (roofline.STUDY, ROOFS),
    ],
    ids=lambda value: value.name if isinstance(value, Study) else "",
)


@EACH
def test_every_axis_has_a_label_and_every_unit_is_named(study: Study, rows: list[Row]) -> None:
    axes = drawn(study, rows)
    assert all(one.get_xlabel() for one in axes)
    assert all(one.get_ylabel() for one in axes if one.get_subplotspec().is_first_col())


@EACH
@pytest.mark.sampled(3)
def test_the_same_rows_make_the_same_bytes_and_letters_stay_letters(
    study: Study, rows: list[Row]
) -> None:
    found = pictures(study, rows)
    assert found == pictures(study, rows)
    assert b"<text" in found["svg"]


def test_colours_differ_in_lightness_or_hatching() -> None:
    def lightness(colour: str) -> float:
        red, green, blue = (int(part, 16) for part in re.findall("..", colour[1:]))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    for first, second in pairwise(PART_COLOURS):
        assert first[1] != second[1] or abs(lightness(first[0]) - lightness(second[0])) > 30
    assert len(set(LINES)) == len(LINES)

"""What the benchmarks run and how they judge it; the figures themselves are not tested."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotuner.search import SHARE
from benchmarks import __main__ as command_line
from benchmarks import corners, deploy, kernels, limit, network, shapes, tuned
from benchmarks.clocks import pulpsim, simulate
from benchmarks.copies import copies_bound
from benchmarks.figure import Figure
from benchmarks.loads import loads_bound
from benchmarks.workload import INSTRUCTIONS, chip, elf, products
from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.chip.spec import load_chip
from soc.prelude.counters import COUNT
from trainlib.launch import checked
from trainlib.primitive.tensor import WORD
from trainlib.registry import family_of


@pytest.mark.parametrize(
    ("figure", "is_met", "target"),
    [
        (Figure("speed", 80, "M/s", 100, 0.8, least=0.75), True, "at least 0.75"),
        (Figure("speed", 70, "M/s", 100, 0.7, least=0.75), False, "at least 0.75"),
        (Figure("memory", 349, "MB", most=350), True, "at most 350"),
        (Figure("memory", 351, "MB", most=350), False, "at most 350"),
        (Figure("first run", 60, "s"), None, ""),
    ],
)
def test_a_ratio_is_judged_or_else_the_figure(figure: Figure, is_met: bool, target: str) -> None:
    assert (figure.is_met, figure.target) == (is_met, target)
    assert figure.to_json()["is_met"] is is_met


@pytest.mark.parametrize(
    ("ratio", "shown"), [(0.71234, "0.712"), (0.69954, "0.6995"), (0.7, "0.7"), (0.7 - 1e-15, None)]
)
def test_a_ratio_is_shown_so_far_that_it_is_on_its_side_of_the_target(
    ratio: float, shown: str | None
) -> None:
    figure = Figure("shape", 700, "cycles", 1000, ratio, least=0.7)
    assert figure.shown_ratio == (shown or repr(ratio))


def test_what_is_measured_is_shown_and_kept_if_a_later_benchmark_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(rounds: int, is_long: bool) -> Iterator[Figure]:
        yield Figure("rounds", rounds, "", least=3)
        raise RuntimeError("no more")

    monkeypatch.setitem(command_line.BENCHMARKS, "speed", failing)
    kept = tmp_path / "figures.json"
    monkeypatch.setattr("sys.argv", ["benchmarks", "speed", "--rounds", "4", "--json", str(kept)])
    with pytest.raises(RuntimeError, match="no more"):
        command_line.main()
    shown = capsys.readouterr()
    assert "speed: rounds: 4\n" in shown.err
    assert "at least 3" in shown.out
    assert [row["ours"] for row in json.loads(kept.read_text())] == [4]


@pytest.mark.parametrize(("cores", "banks"), [(1, 4), (8, 16), (16, 64)])
def test_every_core_has_the_same_work_for_each_repetition(cores: int, banks: int) -> None:
    spec = chip(cores, banks)
    runs = [simulate(products(spec, repetitions), spec) for repetitions in (2, 3, 4)]
    for before, after in pairwise(runs):
        counts = [run.chip.harts["counts"][:cores, COUNT.instructions] for run in (before, after)]
        assert (counts[1] - counts[0] == counts[1][0] - counts[0][0]).all()
        assert abs(counts[1][0] - counts[0][0] - INSTRUCTIONS) < 0.1 * INSTRUCTIONS


def test_seven_cores_sleep_while_one_works() -> None:
    spec = chip()
    result = simulate(products(spec, 50, working=1), spec)
    asleep = result.chip.harts["counts"][:8, COUNT.event] / result.cycles
    assert asleep[0] < 0.01
    assert (asleep[1:] > 0.95).all()


def test_hello_prints_what_its_eight_cores_wrote() -> None:
    numbers = " ".join(f"{0x100 + core:08x}" for core in range(8))
    assert simulate(elf("hello")).console == f"hello from FC\n{numbers} \n"


def test_a_program_that_fails_is_not_measured() -> None:
    with pytest.raises(RuntimeError, match=r"^source: Exit\(reason='deadlock', .*\)$"):
        simulate(assemble("wfi", profile("ri5cy", "x")))


def test_a_command_that_fails_is_not_measured() -> None:
    with pytest.raises(RuntimeError, match=r"^pulpsim run --nothing: exit status 2$"):
        pulpsim("run", "--nothing")


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_the_yardstick_reports_a_rate() -> None:
    with limit.compiled() as program:
        rate = limit.rate(program)
    assert 0 < rate.wall <= 1.1 * rate.processor


def test_what_halves_gain_is_float32s_cycles_over_theirs() -> None:
    shape = {"inputs": 4, "height": 6, "width": 6, "kernel": 3}
    gain = ("small", "dwconv2d_fw", shape, 0.5)
    figures = list(kernels.kernels(cases=(), maps={}, gains=(gain,)))
    names = [f"small {half}, float32's cycles over its own" for half in ("f16", "bf16")]
    assert [figure.name for figure in figures] == names
    assert all(figure.ours > 0.5 for figure in figures)


def test_a_kernel_is_measured_cold_and_warm_and_on_one_core() -> None:
    case = kernels.Case("a matmul", "matmul_f32", {"n": 16, "k": 9, "m": 8}, 0.5, has_tiles=False)
    cold, warm, part = kernels.kernels(cases=(case,), maps={}, gains=())
    assert cold.ours < warm.ours < warm.limit == 16 / 3
    assert (cold.target, warm.target, part.target) == ("", "at least 0.5", "at least 0.93")
    assert 0 < part.ours < 1


def test_a_bound_is_that_of_the_blocking_or_of_the_dma() -> None:
    bounds = {case.name: kernels.bound(case) for case in kernels.CASES}
    assert bounds["conv2d 16->32, forward"] == 16 / 3
    assert bounds["linear 640->128"] == pytest.approx(640 * 128 / ((640 * 128 + 640) / 2))


def test_a_wrong_kernel_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = SimpleNamespace(is_correct=False)
    monkeypatch.setattr(kernels, "launch", lambda *_: ({}, wrong))
    monkeypatch.setattr(network, "launch", lambda *_: ({}, wrong))
    with pytest.raises(RuntimeError, match=r"^matmul 64x64x64: its result is wrong$"):
        next(kernels.kernels())
    with pytest.raises(RuntimeError, match=r"^train_f32, \{'cores': 1\}: its result is wrong$"):
        network.second_step("pulp", cores=1)


def test_regions_stand_beside_the_published_ones() -> None:
    cycles = dict.fromkeys((own for region in network.REGIONS.values() for own in region.ours), 50)
    naive = [row.ours for row in network.figures("naive", 8, cycles)]
    assert naive == [50, 50, 50, 50, 50, 50, 150, 50]
    rows = list(network.figures("best", 8, cycles))
    assert [row.ours for row in rows] == [50, 50, 50, 100, 50, 100, 50, 50]
    assert sum(row.published or 0 for row in rows[:-1]) == rows[-1].published == 107_356
    assert rows[-1].target == "at least 2.75"
    assert rows[0].ratio == 27_668 / 50


def test_a_deployed_network_stays_within_its_cycles_and_bytes() -> None:
    pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")
    target = replace(deploy.TARGETS["AE-tiny"], code=15_000, tables=5_000, seconds=None)
    figures = {f.name: f for f in deploy.network("AE-tiny", target, False)}
    assert {name.partition(": ")[2] for name in figures} == {
        *("a step, 2 MB of L2", "values and a second input", "code", "tables"),
        *("to build it", "to build it again"),
    }
    assert [name for name, figure in figures.items() if figure.is_met is False] == []
    assert figures["AE-tiny: a step, 2 MB of L2"].is_met


def test_a_corner_is_held_against_cycles_or_another_kernel() -> None:
    product = kernels.Case("product", "matmul_f32", {"n": 4, "k": 4, "m": 4})
    cases = corners.Corner(product, 1.0), corners.Corner(product, product)
    slow, equal = corners.corners(cases=cases)
    assert (slow.limit, slow.is_met) == (1.0, False)
    assert (equal.ratio, equal.is_met, equal.unit) == (1.0, True, "cycles")


def test_every_corner_is_a_point_of_its_kernel() -> None:
    for corner in corners.CORNERS:
        checked(corner.case.kernel, corner.case.arguments)


def test_bounds_count_the_loads_of_the_best_blocking() -> None:
    def bound(name: str, **arguments: int) -> float:
        point = checked(name, arguments)
        return loads_bound(name, point, 1, 1) - loads_bound(name, point, 0, 1)

    assert bound("matmul_f32", n=64, k=64, m=64) == pytest.approx(1 + 1 / 4 + 1 / 5)
    assert bound("linear_fw_f32", inputs=64, outputs=64) == pytest.approx(2 + 1 / 20)
    plane = {"inputs": 8, "height": 16, "width": 16, "kernel": 3}
    assert bound("dwconv2d_fw_f32", **plane) == pytest.approx(1 + 16 / (3 * 14))
    both = plane | {"outputs": 8}
    assert bound("conv2d_fw_f32", **both) == pytest.approx(1 + (2 * 3 + 12) / (2 * 10 * 3))
    assert bound("conv2d_wg_f32", **both) == pytest.approx(1 + (2 + 3) / (2 * 3 * 3))
    lone = both | {"kernel": 1, "stride": 2}
    assert bound("conv2d_wg_f32", **lone) == pytest.approx(1 + 1 / 4 + 1 / 5)


def test_bounds_count_a_store_for_each_element_of_the_result() -> None:
    def stores(name: str, **arguments: int) -> float:
        return loads_bound(name, checked(name, arguments), 0, 1)

    image = {"inputs": 2, "outputs": 3, "height": 4, "width": 5, "kernel": 3}
    assert stores("conv2d_fw_f32", **image) == 3 * 2 * 3
    assert stores("conv2d_fw_f32", **image, padding=2) == 3 * 6 * 7
    assert stores("tconv2d_fw_f32", **image, stride=2) == 3 * 9 * 11
    assert stores("tconv2d_ig_f32", **image, stride=2) == 2 * 4 * 5
    for case, _ in shapes.drawn(20):
        point = checked(case.kernel, case.arguments)
        tensors = family_of(case.kernel).tensors(point).values()
        (results,) = (tensor.size for tensor in tensors if tensor.role == "out")
        assert loads_bound(case.kernel, point, 0, 1) == results // WORD, case.name


def test_copies_take_what_bursts_do_that_follow_each_other() -> None:
    chip = load_chip("pulp")
    some, more = copies_bound(1 << 15, 0, chip), copies_bound(1 << 17, 0, chip)
    assert more - some == pytest.approx(3 * 128 * 34, rel=0.01)
    some, more = copies_bound(0, 1 << 15, chip), copies_bound(1, 1 << 17, chip)
    assert more - some == pytest.approx(3 * 128 * 35, rel=0.01)


def test_the_drawn_shapes_are_the_same_every_time_and_their_bounds_hold() -> None:
    first = list(shapes.drawn(20))
    assert first == list(shapes.drawn(20))
    assert {case.kernel for case, _ in first} == set(shapes.KERNELS)
    *figures, typical = shapes.shapes(count=3)
    assert all(figure.ratio is not None and 0 < figure.ratio < 1 for figure in figures)
    assert typical.ours == sorted(figure.ratio or 0 for figure in figures)[1]


def test_a_figure_of_pairs_has_the_median_of_their_ratios() -> None:
    figure = Figure.of_pairs("name", "s", [(1, 2), (4, 1), (3, 3)], most=0.9)
    assert (figure.ours, figure.limit, figure.ratio, figure.is_met) == (3, 2, 1, False)


def test_what_guided_finds_is_held_against_all_points_of_a_space() -> None:
    guided, simulated = tuned.tuned(shapes=0, spaces=1)
    assert guided.ratio is not None
    assert guided.ratio >= 1
    assert guided.most == 1
    assert 0 < simulated.ours <= 1 / SHARE

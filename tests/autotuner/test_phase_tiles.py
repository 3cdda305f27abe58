"""Tiles of phases: which there are, what simulations say of each, and the best of all together."""

from itertools import islice, pairwise, product

import pytest

from autotuner.extrapolation import Steady
from autotuner.measure import Limits, Measure
from autotuner.measurement import Outcome
from autotuner.measurement_store import Database
from autotuner.phase_combination import combined
from autotuner.point import Point
from autotuner.result import Found
from autotuner.search import exhaustive, guided, paper
from autotuner.space import Space
from firmware.builder import KernelError
from soc.chip.spec import load_chip
from tests.autotuner.layers import EVERY, OF_ONE_SIZE, Shaped, shaped
from trainlib.launch import launch
from trainlib.registry import KERNELS

CHIP = load_chip("pulp")
ONE = Limits(workers=1)
LSTM = Shaped("lstm_fw_f32", {"steps": 3, "inputs": 64, "hidden": 64}, True)
PHASES = ("bias_sums", "input_sums", "steps")


def space_of(of=LSTM, sizes=3, **more):
    return Space.of(of.kernel, of.arguments | more, CHIP, sizes=sizes)


def is_sampled(of: Shaped) -> bool:
    """Of a primitive in half precision, either of its shapes: both are cut as in FP32."""
    return of.kernel.endswith("_f32") or of.is_large == of.kernel.endswith("_bf16")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "of" in metafunc.fixturenames:
        is_full = metafunc.config.getoption("--full")
        tiled = [of for of in EVERY if of.kernel != "train_f32"]
        chosen = tiled if is_full else list(filter(is_sampled, tiled))
        metafunc.parametrize("of", chosen, ids=lambda of: f"{of.kernel}-{of.is_large}")


def test_every_primitive_has_points_in_l1_and_larger(of, request):
    is_full = request.config.getoption("--full")
    how = {"sizes": 3} if is_full else {"sizes": 2, "cores": (8,)}
    space = Space.of(of.kernel, of.arguments, CHIP, **how)
    for method, cores, buffers in product(space.methods, space.cores, (1, 2)):
        space.estimates(buffers, method, cores)  # of those that are not among the first, too
        space.phases(buffers, cores)
    few = 1 + (is_full or of.kernel not in OF_ONE_SIZE)
    assert len(list(islice(space, few))) == few
    assert space.is_resident is not of.is_large
    assert space.has(space.default())
    assert (space.default().tile is None) is (not of.is_large)


def test_each_tile_of_each_phase_is_in_a_point_and_none_says_half_of_one():
    space = space_of(buffers=2, cores=8)
    points, phases = list(space), space.phases(2, 8)
    assert tuple(phases.choices) == PHASES
    for name, tiles in phases.choices.items():
        said = [phases.parts(point.tile)[name] for point in points]
        assert set(said) - {()} == {tile for tile, _ in tiles}
        assert len(set(said) - {()}) == sum(part != () for part in said)
    assert points[0] == space.default() == Point((), (), 2, 8, True)
    assert len(points) == len(space) == 1 + max(map(len, phases.choices.values()))
    assert all(space.has(point) for point in points)
    assert not space.has(Point((("steps.sums", 64),), (), 2, 8, True))


def test_the_most_promising_tiles_of_a_phase_are_first():
    for tiles in space_of().phases(2, 8).choices.values():
        assert all(a <= b for (_, a), (_, b) in pairwise(tiles))


def test_what_the_layer_says_of_phases_is_not_varied():
    space = space_of(tile={"rows": 3, "steps": {"sums": 8}}, buffers=2, cores=8)
    for point in space:
        said = dict(point.tile)
        assert (said["rows"], said["steps.sums"]) == (3, 8)
        assert "input_sums.rows" not in said
    assert space.has(space.default())
    assert dict(space.default().tile) == {"rows": 3, "steps.sums": 8}


def test_rows_that_fit_l1_are_cut_as_a_whole_and_longer_ones_in_phases():
    short, long = ({"rows": 10, "columns": n} for n in (1000, 20_000))
    for arguments, is_phased in ((short, False), (long, True)):
        space = Space.of("layernorm_fw_f32", arguments, CHIP, sizes=2)
        assert {point.is_phased for point in space} == {is_phased}
    both = Space.of("layernorm_fw_f32", {"rows": 2, "columns": 3000}, CHIP, sizes=2)
    assert {(p.is_phased, p.buffers) for p in both} == {(True, 2), (False, 1)}


def test_sizes_and_phases_that_there_are_not_are_refused_before_the_search():
    with pytest.raises(
        KernelError,
        match=r"^lstm_fw_f32: tile.stops.sums = 4: no such phase; there are bias_sums, "
        r"input_sums, steps$",
    ):
        space_of(tile={"stops": {"sums": 4}})
    with pytest.raises(
        KernelError, match=r"^linear_fw_f32: tile.z = 4: no such dimension; there are n, co, ci$"
    ):
        Space.of("linear_fw_f32", {"inputs": 640, "outputs": 128, "tile": {"z": 4}}, CHIP)


def made_up(space, costs):
    """A measurement in which each phase takes what a function of its tile says."""
    asked = []

    def measure(points):
        asked.extend(points)
        return [outcome(point) for point in points]

    def outcome(point):
        if not point.is_phased:
            return Outcome(10**9, 64)
        parts = space.phases(point.buffers, point.cores).parts(point.tile)
        cycles = {name: costs(name, part) for name, part in parts.items()}
        return Outcome(sum(cycles.values()), 64, phases=tuple(cycles.items()))

    return measure, asked


@pytest.mark.parametrize("policy", [guided, exhaustive])
def test_the_best_of_each_phase_are_put_together(policy):
    space = space_of(buffers=2, cores=8)
    choices = space.phases(2, 8).choices
    wanted = {name: tiles[min(1, len(tiles) - 1)][0] for name, tiles in choices.items() if tiles}

    def costs(name, part):
        return 10**6 + (100 if part == wanted.get(name) else 200 if not part else 300)

    measure, asked = made_up(space, costs)
    best = policy(space, measure)[0]
    assert space.phases(2, 8).parts(best.point.tile) == {n: wanted.get(n, ()) for n in choices}
    assert len(asked) == len(set(asked)) <= len(space) + 3


def test_of_equal_tiles_of_a_phase_none_is_said():
    space = space_of(buffers=2, cores=8)
    measure, _ = made_up(space, lambda name, part: 1000)
    assert guided(space, measure)[0].point == space.default()
    assert combined(space, [Found(space.default(), measure([space.default()])[0])]) == []


def test_a_simulation_tells_the_cycles_of_each_phase_and_they_are_remembered(tmp_path):
    space, file = space_of(), tmp_path / "tuned.db"
    point = list(space)[1]
    first = Measure(space.layer, CHIP, Database(file), ONE)
    [outcome] = first([point])
    _, report = launch(LSTM.kernel, LSTM.arguments | point.arguments)
    assert outcome.cycles == report.regions["compute"].cycles
    assert dict(outcome.phases) == {name: report.regions[name].cycles for name in PHASES}
    assert sum(dict(outcome.phases).values()) == pytest.approx(outcome.cycles, rel=0.01)
    first.database.close()
    again = Measure(space.layer, CHIP, Database(file), ONE)
    assert (again([point]), again.simulated) == ([outcome], 0)
    assert Steady(again)([point]) == [outcome]


def test_phases_are_kept_before_what_they_are_parts_of(monkeypatch):
    space = space_of()
    measure = Measure(space.layer, CHIP, Database(":memory:"), ONE)
    keep, names = measure.database.keep, []

    def interrupted(key, kernel, *row):
        if kernel == LSTM.kernel and len(names) == len(PHASES):
            raise KeyboardInterrupt
        names.append(kernel)
        keep(key, kernel, *row)

    monkeypatch.setattr(measure.database, "keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure([space.default()])
    assert names == [f"{LSTM.kernel} ({name})" for name in PHASES]
    monkeypatch.undo()
    [outcome] = measure([space.default()])
    assert [name for name, _ in outcome.phases] == list(PHASES)


def test_the_papers_policy_measures_what_has_no_single_tile():
    space = space_of(shaped("softmax_fw_f32", is_large=True))
    measure, asked = made_up(space, lambda name, part: 1000)
    found = paper(space, measure, lambda points: pytest.fail("there are no single tiles"))
    assert asked == space.paper()
    assert found[0].outcome.cycles == 3000


AFFORDABLE = [
    ("berhu_loss_f32", {"shape": [16_000], "unroll": 2, "cores": 8}, 4),
    ("softmax_fw_f32", {"shape": [2, 9000], "unroll": 2, "split": "columns"}, 3),
    ("rnn_bw_f32", {"steps": 4, "inputs": 64, "hidden": 48}, 2),
    ("gru_fw_f32", {"steps": 4, "inputs": 64, "hidden": 64}, 3),
    ("mhsa_fw_f32", {"length": 64, "embed": 32, "heads": 2}, 2),
    ("rmsnorm_bw_f32", {"rows": 2, "columns": 9000, "unroll": 2, "split": "columns"}, 3),
]


@pytest.mark.parametrize("number", range(len(AFFORDABLE)))
def test_guided_is_within_one_percent_of_all_points(request, number):
    if number and not request.config.getoption("--full"):
        pytest.skip("measures hundreds of points; --full does")
    kernel, arguments, sizes = AFFORDABLE[number]
    space = Space.of(kernel, arguments, CHIP, sizes=sizes)
    measure = Measure(space.layer, CHIP, Database(":memory:"))
    best, simulated = guided(space, measure)[0].outcome, measure.simulated
    every = exhaustive(space, measure)
    print(
        f"{kernel}: {len(space)} points, {simulated} simulated, {best.cycles} cycles, "
        f"{best.cycles / every[0].outcome.cycles - 1:.2%} over the best of all"
    )
    assert not any(found.outcome.reason for found in every)
    assert best.cycles <= 1.01 * every[0].outcome.cycles


def test_every_primitive_is_tried():
    assert {of.kernel for of in EVERY if is_sampled(of)} == set(KERNELS) >= set(OF_ONE_SIZE)

"""Programs that are kept: those that planning would make, with the weights of today."""

from dataclasses import fields, replace

import pytest

from soc.chip.spec import load_chip

torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from trainlib.deploy import SGD, Adam, DeployError, deploy  # noqa: E402
from trainlib.deploy.program_store import KEEPS_NOTHING, ProgramStore  # noqa: E402

BATCH = torch.ones(2, 3, 4, 4), torch.tensor([0, 1])


def network(seed=0, outputs=4):
    torch.manual_seed(seed)
    convolution = nn.Conv2d(3, outputs, 3, padding=1)
    return nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), nn.Linear(16 * outputs, 2))


def deployed(store, module=None, chip="pulp", **how):
    how = {"optimizer": SGD(lr=0.1), "loss": F.cross_entropy, "batch": BATCH} | how
    made = deploy(module or network(), chip=chip, **how)
    made.store = store
    return made


@pytest.fixture
def store(tmp_path):
    return ProgramStore(tmp_path)


@pytest.fixture
def planned(monkeypatch):
    """How often something is planned."""
    counts = []
    from trainlib.deploy import planner

    build, fits = planner.build, planner.Tiles.fits
    monkeypatch.setattr(planner, "build", lambda *a, **k: counts.append("built") or build(*a, **k))
    monkeypatch.setattr(
        planner.Tiles, "fits", lambda *a, **k: counts.append("fits") or fits(*a, **k)
    )
    return counts


def same(one, other):
    """Are two programs equal in all that is known of them?"""
    assert one.program.to_elf() == other.program.to_elf()
    left = {f.name: getattr(one, f.name) for f in fields(one) if f.name != "schedule"}
    return left == {n: getattr(other, n) for n in left}


WAYS = {
    "SGD": {},
    "Adam": {"optimizer": Adam(lr=0.1)},
    "two batches": {"accumulate": 2},
    "their mean": {"accumulate": 2, "mean": True},
    "bfloat16": {"dtype": "bf16"},
    "a scale that adapts": {"dtype": "f16", "loss_scale": "dynamic"},
    "four cores": {"cores": 4},
    "a larger L1": {"chip": load_chip("pulp", {"l1": {"size": 0x20000}})},
    "measured tiles": {
        "tuned": lambda kernel, arguments: {"tile": {"d0": 64}} if kernel == "relu_bw_f32" else {}
    },
}


def test_a_program_that_is_kept_is_that_of_planning(store, planned):
    programs = set()
    for way, how in WAYS.items():
        expected = deployed(KEEPS_NOTHING, **how).built()
        programs.add(expected.program.to_elf())
        planned.clear()
        assert same(deployed(store, **how).built(), expected), way
        assert "built" in planned, way
        planned.clear()
        assert same(deployed(store, **how).built(), expected), way
        assert planned == [], way
    assert len(programs) == len(WAYS)


def test_it_has_the_weights_and_rates_of_today(store, planned):
    deployed(store).built()
    planned.clear()
    how = {"module": network(seed=1), "optimizer": SGD(lr=0.3)}
    found = deployed(store, **how)
    assert same(found.built(), deployed(KEEPS_NOTHING, **how).built())
    trained, expected = (d.train([BATCH]) for d in (found, deployed(KEEPS_NOTHING, **how)))
    assert trained.losses == expected.losses
    for name, array in expected.weights.items():
        assert (trained.weights[name] == array).all(), name


def test_a_program_that_holds_its_batches_and_an_evaluation_are_right_too(store):
    for _ in range(2):
        made, expected = deployed(store), deployed(KEEPS_NOTHING)
        assert same(made.with_data([BATCH]), expected.with_data([BATCH]))
        assert made.evaluate([BATCH]).losses == expected.evaluate([BATCH]).losses


def test_gradients_that_are_kept_are_another_program(store):
    for _ in range(2):
        made, expected = deployed(store), deployed(KEEPS_NOTHING)
        for keeps in (False, True):
            found = made.built(keeps_gradients=keeps)
            assert same(found, expected.built(keeps_gradients=keeps))


def test_a_step_that_is_too_large_is_refused_in_the_same_words(store, planned):
    chip = load_chip("pulp", {"l2": {"size": 0x18000}})
    wide = nn.Sequential(nn.Flatten(), nn.Linear(48, 400), nn.Linear(400, 2))
    words = []
    for _ in range(2):
        with pytest.raises(DeployError) as error:
            deployed(store, wide, chip, optimizer=Adam(lr=0.1)).built()
        words.append(str(error.value))
        planned.append("again")
    assert words[0] == words[1]
    assert planned.index("again") == len(planned) - 2


def test_one_of_other_sources_or_that_is_damaged_is_planned_anew(store, planned, monkeypatch):
    deployed(store).built()
    for file in store.folder.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    planned.clear()
    deployed(store).built()
    assert "built" in planned
    monkeypatch.setattr("trainlib.deploy.program_store._versions", lambda: "others")
    planned.clear()
    deployed(store).built()
    assert "built" in planned


def test_the_oldest_make_room(store):
    few = replace(store, programs=2)
    for outputs in (1, 2, 3):
        deployed(few, network(outputs=outputs)).built()
    assert len(list(store.folder.glob("program-*"))) == 2


def test_what_is_planned_tells_its_layers_and_what_is_recalled_nothing(store):
    told = []
    deployed(store).built(tell=told.append)
    assert told[:2] == ["0 forward", "1 forward"]
    assert told[-1] == "0 update"
    told.clear()
    deployed(store).built(tell=told.append)
    assert told == []

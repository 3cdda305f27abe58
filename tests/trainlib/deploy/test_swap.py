"""Values that lie in the HyperRAM between two uses: what is trained is equal bit for bit."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from firmware.runtime import new_kernel, team_of
from soc.chip.spec import load_chip
from soc.run import run_program
from trainlib.deploy import SGD, Adam, DeployError, LossScale, deploy
from trainlib.deploy.memory import Block, Memory, plan
from trainlib.deploy.program_store import KEEPS_NOTHING
from trainlib.deploy.replay import replayed
from trainlib.deploy.swap_code import SwapCode, is_point
from trainlib.deploy.swap_order import Absence, Copy, Gap, copy_cycles, ordered
from trainlib.tiling.warm_up import repeated

torch = pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

SMALL, LARGE = 0x4_0000, 0x8_0000
WORDS = 20
LAYERS, CHANNELS, SIDE = 7, 4, 32


def module(count):
    torch.manual_seed(1)
    layers = [torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1) for _ in range(count)]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(CHANNELS * SIDE**2, 2))


def batches(count):
    numbers = np.random.default_rng(2)
    shape = 1, CHANNELS, SIDE, SIDE
    return [
        (torch.tensor(numbers.standard_normal(shape), dtype=torch.float32), torch.tensor([n % 2]))
        for n in range(count)
    ]


def deployed(l2, layers=LAYERS, optimizer=None, part=None, **how):
    chip = load_chip("pulp", {"l2": {"size": l2}, **how})
    what = {"batch": batches(1)[0], "loss": torch.nn.functional.cross_entropy}
    what["optimizer"] = optimizer or SGD(lr=0.05, momentum=0.9)
    return deploy(module(layers), **what, **(part or {}), chip=chip)


@cache
def small():
    return deployed(SMALL)


def faults(copies):
    built = small().built()
    schedule, memory = built.schedule, built.memory
    given = schedule.nodes, built.calls, built.addresses, schedule.kept
    extent = memory.start, memory.end
    return replayed(schedule.reference, schedule.reference.nodes, *given, extent, copies)


def test_training_with_values_in_the_hyperram_is_equal_bit_for_bit():
    given = batches(2)
    most, least = (deployed(size).train(given) for size in (LARGE, SMALL))
    assert least.losses == most.losses
    for name, weights in most.weights.items():
        assert np.array_equal(least.weights[name], weights), name


def test_states_may_lie_in_the_hyperram_between_steps():
    given = batches(2)
    most, least = (deployed(size, 4, Adam(lr=0.01)) for size in (LARGE, SMALL))
    built = least.built()
    assert {name for name in built.homes if "optimizer" in name}
    assert built.faults() == []
    trained, expected = least.train(given), most.train(given)
    assert trained.losses == expected.losses
    for name, array in (expected.weights | expected.states).items():
        assert np.array_equal((trained.weights | trained.states)[name], array), name
    again = least.train(given, weights=trained.weights, states=trained.states)
    assert again.losses == most.train(given, weights=trained.weights, states=trained.states).losses


def test_what_stays_lies_where_no_copy_reaches():
    """The uDMA reaches 256 kB of an L2 of 384."""
    given = batches(2)
    most, odd, least = (deployed(size, 10, Adam(lr=0.01)) for size in (1 << 20, 0x6_0000, SMALL))
    built = odd.built()
    end = built.chip.l2.base + SMALL
    assert built.faults() == []
    assert sum(block.size for block in built.memory.blocks.values() if block.address >= end) > 1e5
    assert all(built.memory.blocks[copy.name].end <= end for copy in built.copies)
    assert 0 < len(built.copies) < len(least.built().copies) / 4
    found, expected = odd.train(given), most.train(given)
    assert not most.built().copies
    assert found.losses == expected.losses
    for name, array in (expected.weights | expected.states).items():
        assert np.array_equal((found.weights | found.states)[name], array), name


PARTS = {
    "accumulated": {"accumulate": 3},
    "left out": {"dtype": "f16", "loss_scale": LossScale(initial=2.0**17), "accumulate": 2},
}


@pytest.mark.parametrize("name", PARTS)
def test_batches_that_are_added_and_updates_that_are_left_out_let_values_be_absent(name):
    """Of two steps; the scale is too large for the first one's updates."""
    optimizer = Adam(lr=0.01)
    most, least = (deployed(size, 4, optimizer, part=PARTS[name]) for size in (LARGE, SMALL))
    given = batches(2 * least.accumulate)
    built = least.built()
    assert built.copies
    assert built.homes
    assert built.faults() == []
    found, expected = least.train(given), most.train(given)
    assert not most.built().copies
    assert found.losses == expected.losses
    for name, array in (expected.weights | expected.states).items():
        assert np.array_equal((found.weights | found.states)[name], array), name
    if "loss_scale" in found.states:
        assert found.states["loss_scale"][0] == 2.0**16
        assert found.weights["0.bias"].any()


def test_nodes_wait_for_copies_that_take_longer_than_they_do(monkeypatch):
    for module in ("program", "estimate"):
        monkeypatch.setattr(
            f"trainlib.deploy.{module}.node_cycles", lambda points, _: [1 for _ in points]
        )
    given = batches(2)
    most, least = (deployed(size, optimizer=Adam(lr=0.01)) for size in (LARGE, SMALL))
    most.store = least.store = KEEPS_NOTHING
    assert least.built().faults() == []
    assert least.built().copies
    expected, found = most.train(given), least.train(given)
    assert found.losses == expected.losses
    for name, array in (expected.weights | expected.states).items():
        assert np.array_equal((found.weights | found.states)[name], array), name


def test_a_program_that_holds_its_batches_swaps_too():
    given = batches(2)
    built = deployed(SMALL, 6).with_data(given[:1], steps=2)
    assert built.copies
    assert not built.homes
    expected = deployed(LARGE, 6).train([given[0], given[0]]).losses
    result = run_program(built.program, built.chip)
    losses = [float(line.rpartition(" ")[2]) for line in result.console.splitlines()]
    assert losses == pytest.approx(expected, rel=1e-5)


def filled(k, place, value):
    """Let a core store a number and the ones after it to the words from a place on."""
    with k.scope():
        at, number = k.x(2)
        k.li(at, place)
        k.mv(number, value)
        for word in range(WORDS):
            k.sw(number, 4 * word, at)
            k.addi(number, number, 1)


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_nodes_wait_for_copies_and_copies_for_nodes(engine):
    chip = load_chip("pulp")
    k = new_kernel(chip)
    first, second = k.words("first", [0] * WORDS), k.words("second", [0] * WORDS)
    size = 4 * WORDS
    copies = [
        Copy("a", False, first, 0, size, 1, 2),
        Copy("b", False, first, 1024, size, 3, 4),
        Copy("a", True, second, 0, size, 3, 4),
        Copy("b", True, first, 1024, size, 5, 6),
    ]
    server = k.label("server")
    with team_of(k, chip, 2, server) as team:
        code = SwapCode(k, team)
        code.emit_server(server, copies)
        step = k.saved()
        k.li(step, 100)
        with repeated(k, 3):
            for node in range(7):
                if is_point(copies, node):
                    code.before(node, copies)
                with team.only(1):
                    if node in (0, 2, 4):
                        filled(k, first, step)
                    k.addi(step, step, 50)
                team.barrier()
    result = run_program(k.build(), chip, engine=engine, max_cycles=50_000)
    assert (result.exit.reason, result.exit.code, result.warnings) == ("exit", 0, ())
    assert 3 * 4 * 68 < result.cycles < 20_000
    read = [np.frombuffer(result.read(place, size), np.int32) for place in (first, second)]
    last = 100 + 2 * 350
    assert [list(words) for words in read] == [
        list(range(last + 100, last + 100 + WORDS)),
        list(range(last, last + WORDS)),
    ]


def test_the_plan_is_right_and_says_what_is_copied():
    built = small().built()
    assert not deployed(LARGE).built().copies
    assert built.copies
    assert built.faults() == []
    assert {copy.gate for copy in built.copies} <= set(range(len(built.calls)))
    for copy in built.copies:
        assert copy.gate < copy.need <= len(built.calls)
        assert is_point(built.copies, copy.gate)
        assert is_point(built.copies, copy.need)


def made_late(copies, copy):
    """One that is over a node too late, after all that must be over by then."""
    others = [other for other in copies if other is not copy]
    place = max((n for n, o in enumerate(others, 1) if o.need <= copy.need), default=0)
    gate = max([copy.gate, *(other.gate for other in others[:place])])
    return [*others[:place], replace(copy, gate=gate, need=copy.need + 1), *others[place:]]


def test_copies_are_made_in_the_order_in_which_they_are_needed():
    gaps = Gap("late", 4096, 0, 9), Gap("soon", 4096, 1, 5)
    absences = [Absence(gap, True, ((gap.before + 1, gap.after - 2),)) for gap in gaps]
    blocks = [
        Block("late", 4096, 0, 10, 0, absences[0].spans),
        Block("soon", 4096, 0, 10, 4096, absences[1].spans),
        Block("other", 4096, 2, 3, 0),
        Block("third", 4096, 2, 3, 4096),
    ]
    memory = Memory({block.name: block for block in blocks}, 0, 8192, 8192, 8192)
    cycles = [copy_cycles(4096)] * 10
    copies, end = ordered(memory, absences, {"late": 0, "soon": 4096}, cycles)
    assert [(c.name, c.to_l2, c.gate, c.need) for c in copies] == [
        ("late", False, 1, 2),
        ("soon", False, 2, 2),
        ("soon", True, 4, 5),
        ("late", True, 4, 9),
    ]
    assert end == sum(cycles) + copy_cycles(4096)  # node 2 waits for the second one


def test_a_copy_that_starts_too_early_or_ends_too_late_is_found():
    copies = list(small().built().copies)
    for copy in copies:
        if copy.to_l2:
            assert faults(made_late(copies, copy)), copy
    written = next(c for c in copies if c.name.endswith(".Y") and not c.to_l2)
    number = copies.index(written)
    early = replace(written, gate=written.gate - 2)
    assert faults(sorted([*copies[:number], early, *copies[number + 1 :]], key=lambda c: c.gate))
    assert faults([*copies[:number], *copies[number + 1 :]])


def test_what_is_absent_leaves_its_place_to_others():
    a = Block("a", 64, 0, 9, absent=((2, 4), (7, 7)))
    assert a.times == [(0, 1), (5, 6), (8, 9)]
    fits, meets = Block("b", 64, 2, 4), Block("c", 64, 4, 5)
    assert not a.meets(fits)
    assert not fits.meets(a)
    assert a.meets(meets)
    memory = plan([], [a, fits], 0)
    assert (memory.peak, memory.live) == (64, 64)
    assert plan([], [a, meets], 0).peak == 128


def test_a_hyperram_that_is_too_small_helps_nothing():
    message = r"^the step needs [\d,]+ bytes of L2, there are 262,144: .* it has 4,096$"
    with pytest.raises(DeployError, match=message):
        deployed(SMALL, hyperram={"size": 4096}).built()

"""Code fetched ahead: which lines, by which core, and that nothing else changes."""

import numpy as np
import pytest

from firmware.builder import KernelError
from firmware.fetch_ahead import LEAST, OWN, ahead
from firmware.registers import A, S
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.chip.spec import load_chip
from soc.icache.private_cache import LINE_BYTES
from soc.result import RunResult
from soc.run import prepare, run_program
from soc.simulation import Simulation
from trainlib.launch import launch

PULP = load_chip("pulp")
KEPT = (A[0], S[1])
VALUES = (0x1234567, -3)
STEPS = 100


def built(chip=PULP, cores=8, steps=STEPS, **how) -> Program:
    """Core 0 leaves KEPT, after the fetch, and a sum of what it loads and adds in many lines."""
    k = new_kernel(chip)
    places = k.buffer(k.l1, "places", 4 * (len(KEPT) + 1))
    k.registers.hold(*KEPT)
    with team_of(k, chip, cores) as team, ahead(k, team, **how) as fetch:
        for register, value in zip(KEPT, VALUES, strict=True):
            k.li(register, value)
        fetch()
        team.barrier()
        k.here("begin")
        with k.scope():
            at, total, word = k.x(3)
            k.li(at, places)
            k.li(total, 0)
            for step in range(steps):
                for _ in range(step % 5):  # some lines only load and store
                    k.lw(word, 0, at)
                k.addi(total, total, step)
            with team.only(0):
                for place, register in enumerate((*KEPT, total)):
                    k.sw(register, 4 * place, at)
    return k.build()


def symbol(program: Program, name: str) -> int:
    return next(s.address for s in program.symbols if s.name == name)


def left(result: RunResult) -> list[int]:
    assert (result.exit.reason, result.exit.code) == ("exit", 0), result.exit.message
    address = symbol(result.program, "places")
    return np.frombuffer(result.read(address, 4 * (len(KEPT) + 1)), "<i4").tolist()


def code(program: Program) -> range:
    """The addresses of what is fetched."""
    begin = symbol(program, "begin")
    return range(begin, begin + 4 * (STEPS + sum(step % 5 for step in range(STEPS))))


def shared_lines(begun: Simulation) -> set[int]:
    """The numbers of the lines in the shared cache."""
    return set(np.unique(begun.chip.icache["bank"]["lines"]).tolist())


@pytest.mark.parametrize(("least", "expected"), [(LEAST, (0.9, 1)), (1 << 20, (0, 0.05))])
def test_all_lines_are_in_the_shared_cache_when_cores_come_to_them(least, expected, monkeypatch):
    monkeypatch.setattr("firmware.fetch_ahead.LEAST", least)
    program = built()
    issues = run_program(program, PULP, issue_trace=True).issues
    begun = prepare(program, PULP, "compiled")
    begun.run_on(int(issues["cycle"][np.isin(issues["pc"], code(program))].min()))

    wanted = {address // LINE_BYTES for address in code(program)}
    assert len(wanted) > LEAST
    assert expected[0] <= len(wanted & shared_lines(begun)) / len(wanted) <= expected[1]


def test_nothing_of_the_code_is_executed_before_its_time():
    program = built()
    result = run_program(program, PULP, issue_trace=True)

    assert left(result) == [*VALUES, sum(range(STEPS))]
    for hart in range(8):
        pcs = result.issues["pc"][result.issues["hart"] == hart]
        inside = pcs[np.isin(pcs, code(program))]
        assert inside.tolist() == sorted(set(inside.tolist()))


def test_both_engines_take_the_same_cycles():
    results = [run_program(built(), PULP, engine=engine) for engine in ("compiled", "event")]
    assert results[0].cycles == results[1].cycles
    assert left(results[1]) == [*VALUES, sum(range(STEPS))]


def test_no_loop_goes_back_in_the_code_that_was_fetched():
    program = built()
    begun = prepare(program, PULP, "compiled")
    begun.run_on(10_000)
    assert not begun.chip.harts["lp_count"][:8].any()


def test_a_layer_from_l2_ends_sooner(monkeypatch):
    layer = "linear_ig_f32", {"inputs": 13, "outputs": 139, "batch": 15, "tile": {"co": 48}}
    _, fetched = launch(*layer)
    monkeypatch.setattr("firmware.fetch_ahead.LEAST", 1 << 20)
    _, in_step = launch(*layer)

    assert fetched.is_correct
    assert fetched.cycles < in_step.cycles - 300


@pytest.mark.parametrize(
    ("chip", "how"),
    [
        ("pulp-cv32e40p", {}),
        ("pulp", {"cores": 1}),
        ("pulp", {"is_cold": False}),
        ("pulp", {"steps": LEAST}),
    ],
)
def test_nothing_is_fetched_where_that_gains_nothing(chip, how, monkeypatch):
    program = built(load_chip(chip), **how)
    monkeypatch.setattr("firmware.fetch_ahead.LEAST", 1 << 20)
    assert program.segments == built(load_chip(chip), **how).segments


def test_registers_of_the_fetch_are_free():
    k = new_kernel(PULP)
    k.registers.hold(OWN[0])
    with (
        pytest.raises(KernelError, match=f"{OWN[0].name} in use, fetching code"),
        team_of(k, PULP, 8) as team,
        ahead(k, team) as fetch,
    ):
        fetch()

"""Code fetched ahead: which lines, by which core, and that nothing else changes."""

import numpy as np
import pytest

from firmware.builder import KernelError
from firmware.fetch_ahead import LEAST, LINE, OWN, _is_harmless, ahead
from firmware.registers import ZERO, A, S
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.chip.spec import load_chip
from soc.core.hotness import ISSUE
from soc.jit.superblock import superblock_from
from soc.prelude.decoded import LOOP_END
from soc.result import RunResult
from soc.run import prepare, run_program
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


def visits(result: RunResult, program: Program) -> dict[int, list[int]]:
    """What each core has executed of the code before it came to its beginning."""
    begin, found = symbol(program, "begin"), {}
    for hart in range(8):
        pcs = result.issues["pc"][result.issues["hart"] == hart].tolist()
        before = pcs[: pcs.index(begin + 4) - 1]
        found[hart] = [pc for pc in before if pc >= begin]
    return found


def traced(program: Program) -> RunResult:
    return run_program(program, PULP, issue_trace=True)


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_every_core_fetches_its_part_of_the_lines(engine):
    program = built()
    result = run_program(program, PULP, engine=engine, issue_trace=True)

    assert left(result) == [*VALUES, sum(range(STEPS))]
    begin, found = symbol(program, "begin"), visits(result, program)
    lines = [[pc // LINE for pc in found[hart]] for hart in range(8)]
    numbers = [line for each in lines for line in each]
    assert numbers == sorted(set(numbers))  # one after the other, none twice
    assert 0.6 < len(numbers) / (numbers[-1] + 1 - begin // LINE) <= 1
    most = max(each[-1] - each[0] + 1 for each in lines)
    assert most <= -(-(numbers[-1] + 4 - begin // LINE) // 8)


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_half_words_of_instructions_fetch_lines_that_only_load(engine):
    program = built(by_halves=True)
    result = run_program(program, PULP, engine=engine, issue_trace=True)

    assert left(result) == [*VALUES, sum(range(STEPS))]
    begin, found = symbol(program, "begin"), visits(result, program)
    numbers = [pc // LINE for hart in range(8) for pc in found[hart]]
    assert numbers == sorted(set(numbers))
    others = [pc // LINE for pcs in visits(traced(built()), built()).values() for pc in pcs]
    assert len(numbers) > len(others)
    assert 0.9 < len(numbers) / (numbers[-1] + 1 - begin // LINE) <= 1


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
def test_nothing_is_fetched_where_that_gains_nothing(chip, how):
    program = built(load_chip(chip), **how)
    assert "lines" not in {s.name for s in program.symbols}


def test_registers_of_the_fetch_are_free():
    k = new_kernel(PULP)
    k.registers.hold(OWN[0])
    with (
        pytest.raises(KernelError, match=f"{OWN[0].name} in use, fetching code"),
        team_of(k, PULP, 8) as team,
        ahead(k, team) as fetch,
    ):
        fetch()


def test_lines_that_were_fetched_are_translated_as_others():
    program = built()
    begun = prepare(program, PULP, "compiled")
    begun.run_on(3000)
    first = symbol(program, "begin") - int(begun.chip.config[0]["code_base"]) >> 1
    rows = first + np.flatnonzero(begun.chip.code["flags"][first : first + 400] & LOOP_END)
    assert rows.size > 8
    assert all(superblock_from(begun.chip, int(row), ISSUE) for row in rows)


def test_a_marker_of_a_region_is_not_executed():
    k = new_kernel(PULP)
    with team_of(k, PULP, 8) as team, ahead(k, team) as fetch:
        fetch()
        for _ in range(40):
            with k.region("measured"):
                k.addi(ZERO, ZERO, 0)
    result = run_program(k.build(), PULP)
    assert {region["count"] for region in result.rows("regions")} == {40}


@pytest.mark.parametrize(("name", "is_done"), [("fsgnjn.h", True), ("fsgnjn.ah", False)])
def test_what_the_rtl_does_wrong_is_not_executed(name, is_done):
    isa = new_kernel(PULP).isa
    insn = next(insn for insn in isa.insns if insn.name == name)
    word = isa.encode(insn, **dict.fromkeys(insn.operand_names, 7))
    assert _is_harmless(isa, word, frozenset(KEPT)) is is_done

"""Checked runs: the same cycles, findings in words, stacks, arenas, conflicts, what is refused."""

import re
import shutil

import numpy as np
import pytest

from firmware.registers import SP, ZERO
from firmware.runtime import new_kernel, team_of
from soc.check.report import CHECKS
from soc.chip.spec import load_chip
from soc.run import run_program
from tests.firmware.test_c import GCC, compiled
from tests.soc.check.seeded import MEMORY, RACES, seeded
from trainlib.launch import program

PULP = load_chip("pulp")
BY_NAME = {scenario.__name__: scenario for scenario in (*RACES, *MEMORY)}
MATMUL = program("matmul_f32", {"n": 16, "k": 16, "m": 16}).program

needs_compiler = pytest.mark.skipif(
    not shutil.which(GCC), reason="gcc-riscv64-unknown-elf is not installed"
)


@pytest.mark.parametrize("checks", [(check,) for check in CHECKS] + [CHECKS])
@pytest.mark.parametrize("engine", ["compiled", "event"])
@pytest.mark.sampled
def test_a_check_changes_nothing(checks, engine):
    plain, watched = (run_program(MATMUL, engine=engine, checks=c) for c in ((), checks))
    assert (plain.cycles, plain.exit) == (watched.cycles, watched.exit)
    for name in ("counts", "regs"):
        assert (plain.chip.harts[name] == watched.chip.harts[name]).all()
    assert (plain.chip.l2 == watched.chip.l2).all()
    assert (plain.chip.banks == watched.chip.banks).all()
    assert plain.checked is None
    assert watched.checked.checks == tuple(name for name in CHECKS if name in checks)
    assert watched.checked.findings == ()


def messages(name, check):
    result = run_program(seeded(BY_NAME[name], 0, True), checks=(check,), max_cycles=100_000)
    return [finding.message for finding in result.checked.findings]


LINE = r"at \S*\.py:\d+"


def test_a_race_says_who_did_what_when_and_where():
    [text] = messages("neighbour_without_a_barrier", "races")
    assert re.fullmatch(
        r"races: 0x10000000 \(word\): core1 reads it in cycle \d+, pc 0x1c01[0-9a-f]{4} in "
        rf"cluster_start\+0x[0-9a-f]+ {LINE}; core0 writes it in cycle \d+, pc 0x1c01[0-9a-f]{{4}} "
        rf"in cluster_start\+0x[0-9a-f]+ {LINE}; neither happened before the other",
        text,
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "unwritten_word",
            r"memory: 0x10000000 \(word\): core0 reads it {at}; nothing has written it",
        ),
        (
            "past_the_end",
            r"memory: 0x10000014: core0 writes it {at}; it belongs to no section, buffer or stack",
        ),
        (
            "code_overwritten",
            r"memory: 0x1c01[0-9a-f]{{4}} \(patched\): core0 writes it {at}; "
            r"it is code or a constant",
        ),
        (
            "copy_in_flight_read",
            r"memory: 0x10000004 \(target\+0x4\): core0 reads it {at}; the DMA for core0 writes it "
            r"{at}; no core has waited for the end of this copy",
        ),
        (
            "counter_kept",
            r"memory: counter 0 of the DMA: core0 allocates it {at}; it was never freed",
        ),
    ],
)
def test_a_misused_byte_says_who_did_what_when_and_where(name, told):
    at = rf"in cycle \d+, pc 0x1c01[0-9a-f]{{4}} in \w+(\+0x[0-9a-f]+)? {LINE}"
    [text] = messages(name, "memory")
    assert re.fullmatch(told.format(at=at), text), text


def test_a_finding_in_numbers():
    result = run_program(
        seeded(BY_NAME["counter_without_a_lock"], 0, True), checks=("races",), max_cycles=100_000
    )
    checks = result.to_json()["checks"]
    assert (checks["made"], checks["dropped"], checks["conflicts"]) == (["races"], 0, [])
    first = checks["findings"][0]
    assert {name: first[name] for name in ("check", "kind", "address", "size", "what")} == {
        "check": "races",
        "kind": "race",
        "address": 0x10000000,
        "size": 4,
        "what": "word",
    }
    one, other = first["accesses"]
    assert (one["who"], one["does"], other["who"], other["does"]) == (
        "core1",
        "reads",
        "core0",
        "writes",
    )
    assert one["cycle"] > other["cycle"] > 0
    assert one["function"] == "cluster_start"
    assert re.fullmatch(r".*\.py:\d+", one["line"])


def test_races_are_found_in_a_run_that_fills_the_buffer_many_times():
    k = new_kernel(PULP)
    word, other = (k.buffer(k.l1, name, 4) for name in ("word", "other"))
    with team_of(k, PULP, 8) as team, k.scope():
        place, value, left = k.x(3)
        k.li(place, other)
        with team.only(0):
            k.sw(ZERO, 0, place)
        team.barrier()
        with team.only(0):
            k.li(place, word)
            k.sw(ZERO, 0, place)
        k.li(place, other)
        k.li(left, 100_000)
        again = k.here()
        k.lw(value, 0, place)
        k.addi(left, left, -1)
        k.bne(left, ZERO, again)
        with team.only(5):
            k.li(place, word)
            k.lw(value, 0, place)
    [race] = run_program(k.build(), checks=("races",)).checked.findings
    assert [(a.who, a.does) for a in race.accesses] == [("core5", "reads"), ("core0", "writes")]


@pytest.mark.parametrize("depth", [0, 16, 400, 1024])
@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_the_deepest_use_of_each_stack_is_told_always(depth, engine):
    k = new_kernel(PULP)
    with team_of(k, PULP, 8) as team, team.only(3):
        for step in (-depth // 2, -depth + depth // 2, depth):
            k.addi(SP, SP, step)
    harts = run_program(k.build(), engine=engine).to_json()["harts"]
    used = [hart["stack"] for hart in harts]
    assert used[3] == {"size": 1024, "deepest": depth}
    assert used[:3] + used[4:8] == [{"size": 1024, "deepest": 0}] * 7


def stride_program(distance):
    """Every core reads a word of its own, `distance` bytes after the one of the core before it."""
    k = new_kernel(PULP)
    rows = k.buffer(k.l1, "rows", 8 * distance + 256)
    with team_of(k, PULP, 8) as team, k.scope():
        place, value, left = k.x(3)
        team.core(place)
        k.li(value, distance)
        k.mul(place, place, value)
        k.li(value, rows)
        k.add(place, place, value)
        team.barrier()
        k.li(left, 50)
        again = k.here()
        k.lw(value, 0, place)
        k.addi(left, left, -1)
        k.bne(left, ZERO, again)
    return k.build()


@pytest.mark.parametrize("distance", [1024, 64])
def test_conflicts_say_which_distance_would_avoid_them(distance):
    worst = run_program(stride_program(distance), checks=("performance",)).checked.conflicts[0]
    assert worst.conflicts > 100
    assert worst.distance == distance
    assert worst.advice == (
        f"from one core to the next addresses are {distance:,} bytes apart, which meet in 1 "
        f"of 16 banks: {distance + 4:,} bytes would not"
    )


def test_the_distance_that_is_advised_avoids_the_conflicts():
    before, after = (
        run_program(stride_program(distance), checks=("performance",)).checked.conflicts
        for distance in (1024, 1028)
    )
    assert before[0].conflicts > 20 * sum(line.conflicts for line in after)


ARENA = """
#include "pulp.h"
const int table[4] = {1, 2, 3, 4};
int main(void)
{
    volatile int *taken = l2_take(32);
    for (int i = 0; i < COUNT; i++)
        taken[i] = i;
    if (WRITES)
        *(volatile int *)&table[1] = 5;
    return 0;
}
"""


@needs_compiler
@pytest.mark.parametrize(
    ("count", "writes", "kinds"),
    [(8, 0, []), (9, 0, ["outside"]), (8, 1, ["constant"])],
)
def test_an_arena_is_given_as_far_as_it_is_taken(count, writes, kinds, tmp_path):
    source = tmp_path / "arena.c"
    source.write_text(ARENA)
    elf = compiled(source, tmp_path, "-O1", "-g", f"-DCOUNT={count}", f"-DWRITES={writes}")
    found = run_program(elf, checks=("memory", "races"), max_cycles=100_000).checked.findings
    assert [finding.kind for finding in found] == kinds
    for finding in found:
        assert finding.accesses[0].function == "main"
        assert finding.accesses[0].line.startswith("arena.c:") or "arena.c" in finding.message


@needs_compiler
def test_programs_of_the_sdk_run_clean(tmp_path):
    from tests.firmware.test_c import EXAMPLES

    elf = compiled(EXAMPLES / "dot.c", tmp_path, "-O2")
    assert run_program(elf, checks=("memory", "races")).checked.findings == ()


def test_what_is_no_check_is_refused():
    with pytest.raises(
        ValueError, match=r"^check 'speed'; the checks are races, memory, stack, .*"
    ):
        run_program(MATMUL, checks=("speed",))
    message = r"^checks and a trace exclude each other: both take .*; make two runs$"
    with pytest.raises(ValueError, match=message):
        run_program(MATMUL, checks=("races",), issue_trace=True)


def test_a_checked_chip_is_copied_without_its_shadow():
    import pickle

    chip = run_program(MATMUL, checks=("races",)).chip
    copied = pickle.loads(pickle.dumps(chip))
    assert copied.bytes.size == copied.cells.size == 0
    assert np.array_equal(copied.l1, chip.l1)

"""The console's text: whole lines of each core, however cores interleave."""

from random import Random

import pytest

from firmware.runtime import new_kernel, team_of
from soc.chip.spec import load_chip
from soc.console_text import ConsoleText
from soc.guards import Guards
from soc.run import ENGINES, run_program

PULP = load_chip("pulp")
CORES, LINES = 8, 3
LIMIT = 10_000


def console(is_raw=False, limit=LIMIT):
    shown = []
    return ConsoleText(shown.append, limit, is_raw), shown


def put(text, writer, to):
    for byte in text.encode():
        to.put(byte, writer)


def test_others_wait_for_the_end_of_a_line():
    lines, shown = console()
    put("on", 0, lines)
    put("two\nthree", 1, lines)
    put("four\n", 2, lines)
    assert shown == ["o", "n"]
    put("e\n", 0, lines)
    assert "".join(shown) == "one\ntwo\nfour\nthree"
    put("!\n", 1, lines)
    assert "".join(shown) == "".join(lines.text) == "one\ntwo\nfour\nthree!\n"


def test_unfinished_lines_come_at_the_end_each_on_its_own():
    lines, shown = console()
    put("> ", 0, lines)
    put("a\nb", 1, lines)
    put("c", 2, lines)
    assert lines.everything == "> \na\nb\nc"
    assert "".join(shown) == "> "
    lines.finish()
    assert "".join(shown) == lines.everything == "> \na\nb\nc"


def test_raw_text_keeps_the_order_of_the_stores():
    raw, shown = console(is_raw=True)
    put("ab", 0, raw)
    put("c\n", 1, raw)
    put("d\n", 0, raw)
    raw.finish()
    assert "".join(shown) == raw.everything == "abc\nd\n"


@pytest.mark.parametrize("seed", range(20))
def test_any_interleaving_keeps_each_core_s_lines_also_from_a_checkpoint(seed):
    random = Random(seed)
    printed = {core: [f"{core}: caf\u00e9 {n}\n" for n in range(LINES)] for core in range(CORES)}
    left = {core: list("".join(lines).encode()) for core, lines in printed.items()}
    whole, shown = console()
    while left:
        core = random.choice(sorted(left))
        whole.put(left[core].pop(0), core)
        if not left[core]:
            del left[core]
        if random.random() < 0.1:
            again = ConsoleText(shown.append, LIMIT)
            again.restore(list(whole.text), whole.printed, whole.state)
            whole = again
    text = "".join(shown)
    assert text == whole.everything
    lines = text.splitlines(keepends=True)
    for core, expected in printed.items():
        assert [line for line in lines if line.startswith(f"{core}:")] == expected
    assert len(lines) == CORES * LINES


@pytest.mark.parametrize("engine", ENGINES)
def test_eight_cores_that_print_at_once_print_whole_lines(engine):
    k = new_kernel(PULP)
    with team_of(k, PULP, CORES) as team, k.scope():
        base, char, left = k.x(3)
        team.core(base)
        k.addi(char, base, ord("a"))
        k.slli(base, base, 3)
        k.li(left, 0x1A10F000)
        k.add(base, base, left)
        for _ in range(LINES):
            for _ in range(4):
                k.sb(char, 0, base)
            k.li(left, ord("\n"))
            k.sb(left, 0, base)
    program = k.build()
    told = []
    result = run_program(program, PULP, engine=engine, max_cycles=50_000, on_console=told.append)
    assert sorted(result.console.splitlines()) == sorted(4 * c for c in "abcdefgh" * LINES)
    assert "".join(told) == result.console
    raw = run_program(program, PULP, engine=engine, max_cycles=50_000, guards=Guards(is_raw=True))
    assert sorted(raw.console) == sorted(result.console)
    assert raw.console != result.console
    assert raw.cycles == result.cycles

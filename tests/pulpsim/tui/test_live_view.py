"""The live view: what it shows is what happened, and looking changes nothing."""

import re
from pathlib import Path

import numpy as np
import pytest

from isa.names import F_NAMES, X_NAMES
from isa.program import Program, Symbol
from pulpsim.live.clock import even_width
from pulpsim.live.run_source import RunSource
from pulpsim.live.samples import Samples, sample_of
from pulpsim.live.screen import LINES, layout
from soc.run import run_program
from soc.session import Session
from soc.spec import load_chip
from soc.state import CAUSES
from tests.pulpsim.live.person import SEED, Person, live
from tests.soc.random_programs import random_program

ROOT = Path(__file__).parents[3]


def test_looking_changes_no_cycle(hello: Program) -> None:
    source = live(hello)
    person = Person(source)
    person.press("space", "left", "+", "+", "home", ".", "i", "n", "down", "i")
    person.type("b", "core")
    person.press("space", "\t", "\t", "\t", "-", "f", "space")
    assert "registers" not in person.screen
    person.type("b", "*")
    person.press("space")
    assert "ended" in person.screen
    expected = run_program(hello)
    assert {**source.result().to_json(), "host": 0} == {**expected.to_json(), "host": 0}
    assert source.console == expected.console


def test_every_picture_fills_its_terminal_and_no_more(program: Program) -> None:
    for width, height, banks in ((100, 30, 16), (100, 30, 64), (171, 50, 16), (100, 31, 4)):
        chip = load_chip("pulp", {"l1.banks": banks})
        source = RunSource(Session(program, chip), "wide " * 40, {})
        person = Person(source, width, height)
        person.press("space")
        for _ in range(4):
            lines = person.lines
            assert len(lines) == height
            assert max(map(len, lines)) <= width
            person.press("\t")


def test_a_terminal_that_is_too_small_is_told_what_is_needed(program: Program) -> None:
    person = Person(live(program), 80, 24)
    assert " ".join(person.screen.split()) == (
        "The live view needs 100 columns and 30 lines; this terminal has 80 and 24. "
        "Enlarge it, or leave with q."
    )
    assert LINES == 30


def test_many_harts_need_more_lines(program: Program) -> None:
    chip = load_chip("pulp", {"cores": 16})
    sizes = {}
    for height in (31, 32):
        person = Person(RunSource(Session(program, chip), "a program", {}), 100, height)
        sizes[height] = len(person.lines)
        assert ("needs 100 columns and 32 lines" in person.screen) == (height < 32)
    assert sizes[32] == 32


def test_the_columns_add_up_to_the_counters(program: Program) -> None:
    source = live(program)
    Person(source).press("space")
    edges = np.arange(51) * even_width(source.latest, 50)
    source.refine(edges)
    bins, result = source.bins(edges), run_program(program)
    harts = result.to_json()["harts"]
    assert bins.conflicts.sum(axis=1).tolist() == result.chip.banks["conflicts"].tolist()
    assert bins.issued.sum(axis=1).tolist() == [hart["instructions"] for hart in harts]
    assert (bins.issued.sum(axis=1) + bins.stalls.sum(axis=(1, 2))).tolist() == [
        hart["cycles"] for hart in harts
    ]
    assert bins.dma.sum(axis=1).tolist() == result.to_json()["dma"]["beats"][::-1]


def test_names_of_the_program_give_no_orders_to_the_terminal(program: Program) -> None:
    name = "[red]\x1b[2J\n\t\x1b]0;x\x07[/]"
    symbols = tuple(Symbol(name, s.address, s.size, s.kind) for s in program.symbols)
    evil = Program(program.segments, program.entry, symbols, program.sections)
    source = RunSource(Session(evil), name, dict.fromkeys(range(8), name))
    source.print(name)
    person = Person(source)
    person.press("space", "left")
    for _ in range(4):
        screen = person.screen
        assert len(person.lines) == 30
        assert not set(screen) & set("\x1b\x07\t")
        assert "[red]\\x1b[2J" in screen
        person.press("\t")


def test_without_colours_letters_tell_the_same(program: Program) -> None:
    source = live(program)
    person = Person(source, colours=False)
    person.press("space")
    rows = [line[51:] for line in person.lines[16:24]]
    assert any(set(row) & set(".:-=+*#%@") for row in rows)
    assert not any("▀" in row for row in rows)


@pytest.mark.parametrize(
    ("key", "typed", "message"),
    [
        ("g", "soon", "'soon' is no cycle: a number as 12,345"),
        ("b", "nowhere", "'nowhere' is no name in the program, nor an address as 0x1c008080"),
        ("m", "0x1g", "'0x1g' is no name in the program, nor an address as 0x1c008080"),
    ],
)
def test_what_is_typed_wrong_is_named(program: Program, key: str, typed: str, message: str) -> None:
    person = Person(live(program))
    person.type(key, typed)
    assert person.lines[-2].strip() == message


def test_cycles_are_gone_to_whether_they_are_known_or_not(program: Program) -> None:
    person = Person(live(program))
    for cycle in ("1,000", "500", "1200", "0"):
        person.type("g", cycle)
        assert f"cycle {int(cycle.replace(',', '')):,}" in person.lines[0]
    person.press("end")
    assert "cycle 1,200 " in person.lines[0]
    person.press("left", ",", "page up")
    assert person.app.source.cycle == 1200 - 2 - even_width(1200, 49)


def test_memory_and_registers_of_the_cycle_are_shown(hello: Program) -> None:
    source = live(hello)
    person = Person(source)
    person.type("b", "core")
    person.press("space", "\t", "\t")
    assert f"pc {hello.symbol('core').address:08x}" in person.screen
    person.type("m", "core")
    word = hello.bytes_at(hello.symbol("core").address, 4)[::-1].hex()
    assert f"{hello.symbol('core').address:08x}  {word}" in person.screen
    person.type("m", "0x20000000")
    assert "are not in L1" in person.screen


@pytest.mark.parametrize("floats", [[], list(F_NAMES)])
def test_the_least_terminal_has_room_for_every_register(
    floats: list[str], program: Program
) -> None:
    session = Session(program)
    session.chip.harts["f_registers"] = bool(floats)
    person = Person(RunSource(session, "a program", {}))
    person.press("\t")
    for names in (list(X_NAMES), floats):
        person.press("\t")
        found = re.findall(r"(?<= )([a-z]+\d*) 00000000\b", person.screen)
        assert [name for name in found if name != "pc"] == names


def test_speeds_are_limits() -> None:
    source = live(random_program(SEED))
    person = Person(source)
    person.press("<")
    assert "limit 10.0M/s" in person.screen
    person.press(*"<" * 20)
    assert "limit 1/s" in person.screen
    person.press(*">" * 20)
    assert "limit" not in person.screen


def test_samples_are_thinned_out_and_stay_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from pulpsim.live import samples as module

    monkeypatch.setattr(module, "MOST", 16)
    session = Session(random_program(SEED))
    samples = Samples(session.chip)
    samples.add(0, sample_of(session.chip, 0))
    expected = {}
    while session.end is None:
        session.step(samples.grain - session.cycle % samples.grain)
        samples.add(session.cycle, sample_of(session.chip, session.cycle))
        expected[session.cycle] = session.chip.banks["conflicts"].sum()
    assert 8 < len(samples.even) <= 16
    edges = np.array(sorted(samples.even))
    sums = samples.bins(edges).conflicts.sum(axis=0).cumsum()
    assert sums.tolist() == [expected[edge] for edge in edges[1:].tolist()]


def test_each_cause_of_a_stall_has_its_kind() -> None:
    from pulpsim.live.palette import KINDS, ROWS_OF_KIND

    rows = [row for rows in ROWS_OF_KIND for row in rows]
    assert sorted(rows) == list(range(len(CAUSES)))
    assert len({kind.letter for kind in KINDS}) == len({kind.colour for kind in KINDS}) == 7


def test_keys_are_named_as_far_as_there_is_room(program: Program) -> None:
    source = live(program)
    for width, last in ((100, "q quit"), (107, "q quit"), (110, "m memory"), (171, "first, last")):
        assert Person(source, width).lines[-1].rstrip().endswith(last)


def test_layouts_use_all_lines() -> None:
    for height in range(30, 80):
        for wanted in (3, 7):
            place = layout(100, height, 9, 16, wanted)
            assert place.heat + place.panel + 19 == height
            assert 4 <= place.heat <= 8


def test_the_picture_of_the_readme_can_be_made(tmp_path: Path) -> None:
    from pulpsim.live.screenshot import screenshot

    screenshot(tmp_path / "live.svg")
    made, shown = (tmp_path / "live.svg").read_text(), (ROOT / "docs" / "live.svg").read_text()
    assert "linear_2_wg" in made
    assert len(made) < 200_000
    assert "docs/live.svg" in (ROOT / "README.md").read_text()
    assert "linear_2_wg" in shown

"""The live view: what it shows is what happened, and looking changes nothing."""

from dataclasses import replace

import numpy as np
import pytest

from isa.assembler.names import F_NAMES, X_NAMES
from isa.program import Program, Symbol
from pulpsim.tui import overview
from pulpsim.tui.clock import even_width
from pulpsim.tui.formats import FORMATS, WIDTH, shown
from pulpsim.tui.samples import Samples, sample_of
from pulpsim.tui.simulation_source import RunSource
from soc.chip.spec import load_chip
from soc.debug.session import Session
from soc.prelude.counters import CAUSES
from soc.run import run_program
from tests.pulpsim.tui.person import SEED, Person, live
from tests.soc.random_programs import random_program


def test_looking_changes_no_cycle(hello: Program) -> None:
    source = live(hello)
    person = Person(source)
    person.press("space", "left", "plus", "plus", "home", "full_stop", "i", "n", "down", "i")
    assert person.lines
    person.player.toggle_breakpoint("core")
    person.press("space", "minus", "f", "space")
    person.player.toggle_breakpoint("*")
    person.press("space")
    assert person.player.state == "ended"
    expected = run_program(hello)
    assert {**source.result().to_json(), "host": 0} == {**expected.to_json(), "host": 0}
    assert source.console == expected.console


@pytest.mark.parametrize("harts", [1, 9, 17])
def test_layouts_fill_every_screen_from_80_by_24_on(harts: int) -> None:
    for width in (80, 99, 100, 139, 140, 300):
        for height in range(24, 90):
            place = overview.layout(width, height, harts, 16)
            used = overview.FIXED + place.harts + (place.heat + 4 if place.heat else 0)
            assert place.left + place.right == width
            assert place.function >= 10
            assert 0 < place.harts <= harts
            assert height - used >= overview.LEAST_PANEL
            assert place.heat in (0, *range(4, 9))
    assert overview.layout(100, 30, 9, 16).heat == 4
    assert overview.layout(80, 24, 9, 16) == overview.Layout(80, 24, 31, 0, 9, 0)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (171, 50)])
def test_no_line_of_the_overview_is_wider_than_the_screen(
    program: Program, width: int, height: int
) -> None:
    for banks in (4, 16, 64):
        chip = load_chip("pulp", {"l1.banks": banks})
        person = Person(RunSource(Session(program, chip), "wide " * 40), width, height)
        person.press("space")
        count = 4 + len(person.source.names) + (person.layout.heat + 4 if width > 80 else 0)
        assert max(map(len, person.lines[:count])) <= width


def test_the_columns_add_up_to_the_counters(program: Program) -> None:
    source = live(program)
    Person(source).press("space")
    edges = np.arange(51) * even_width(source.latest, 50)
    assert source.refine(edges, lambda: True)
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
    regions = dict.fromkeys(range(8), name)
    evil = replace(program, symbols=symbols, regions=regions)
    source = RunSource(Session(evil), name)
    source.print(name)
    person = Person(source, 140, 40)
    person.press("space", "left")
    assert not set("".join(person.lines)) & set("\x1b\x07\t\n")
    assert person.screen.count("[red]\\x1b[2J") > 9


def test_a_refinement_that_is_no_longer_wanted_leaves_the_clock_alone(program: Program) -> None:
    source = live(program)
    person = Person(source)
    person.go_to("1500")
    edges = np.arange(60) * 17
    wanted = iter([True] * 5 + [False])
    assert not source.refine(edges, lambda: next(wanted))
    assert source.cycle == 1500
    assert source.refine(edges, lambda: True)
    assert source.cycle == 1500


def test_cycles_are_gone_to_whether_they_are_known_or_not(program: Program) -> None:
    person = Person(live(program))
    for cycle in ("1,000", "500", "1200", "0"):
        person.go_to(cycle)
        assert f"cycle {int(cycle.replace(',', '')):,}" in person.lines[0]
    person.press("end")
    assert "cycle 1,200" in person.lines[0]
    person.press("left", "comma", "pageup")
    assert person.source.cycle == 1200 - 2 - even_width(1200, person.layout.right)


def test_columns_move_only_as_far_as_the_clock_needs(program: Program) -> None:
    person = Person(live(program))
    person.go_to("1200")
    player, columns = person.player, person.layout.right
    for _ in range(20):
        person.press("plus")
    before = player.edges(columns)
    assert np.diff(before).tolist() == [1] * columns
    assert before[0] < 1200 <= before[-1]
    person.press("left", "left")
    assert player.edges(columns).tolist() == before.tolist()
    player.change_zoom(2, columns, at=7)
    assert player.edges(columns)[7] == pytest.approx(before[7], abs=1)
    person.go_to("100")
    assert player.edges(columns)[0] < 100 <= player.edges(columns)[-1]
    player.pan(columns, 1.0)
    assert player.edges(columns)[0] > 100
    assert person.frame.cursor < 0


def test_changed_registers_are_marked(hello: Program) -> None:
    person = Person(live(hello))
    person.player.toggle_breakpoint("core")
    person.press("space")
    before, hart = person.frame, person.player.selected
    assert before.registers["pc"] == hello.symbol("core").address
    person.press("i")
    after = person.frame
    assert after.selected == hart
    changed = {n for n in after.registers if after.registers[n] != before.registers[n]}
    assert "pc" in changed
    assert after.changed == changed
    assert person.frame.changed == changed  # as long as the clock stands


@pytest.mark.parametrize("floats", [[], list(F_NAMES)])
def test_every_register_is_shown(floats: list[str], program: Program) -> None:
    session = Session(program)
    session.chip.harts["f_registers"] = bool(floats)
    person = Person(RunSource(session, "a program"))
    now = person.frame
    for panel, names in (("registers", X_NAMES), ("floats", floats)):
        page = person.page(panel, now)
        words = " ".join(page.line(k).plain for k in range(page.count)).split()
        assert sorted(words[::2]) == sorted(["pc", *names] if panel == "registers" else names)


@pytest.mark.parametrize(
    ("word", "texts"),
    [
        (0x3F800000, ["1", "3f800000", "1065353216", "1", "0 1.88"]),
        (0xFFFFFFFE, ["-2", "fffffffe", "-2", "nan", "nan nan"]),
        (0xC0490FDB, ["-3.1416", "c0490fdb", "-1068953637", "-3.14159", "0.000479 -2.14"]),
        (0x1C010080, ["", "1c010080", "469827712", "4.26832e-22", "7.63e-06 0.00391"]),
        (0x00003C00, ["15360", "00003c00", "15360", "2.15239e-41", "1 0"]),
    ],
)
def test_words_are_shown_as_what_they_may_be(word: int, texts: list[str]) -> None:
    assert [shown(word, form) for form in FORMATS] == texts


def test_no_word_is_wider_than_its_column() -> None:
    words = np.random.default_rng(1).integers(0, 1 << 32, 20_000).tolist()
    for form in FORMATS:
        assert max(len(shown(word, form)) for word in words) <= WIDTH[form]


def test_speeds_are_limits() -> None:
    person = Person(live(random_program(SEED)))
    person.press("less_than_sign")
    assert "limit 10.0M cycles/s" in person.lines[0]
    person.press(*["less_than_sign"] * 20)
    assert "limit 1 cycles/s" in person.lines[0]
    person.press(*["greater_than_sign"] * 20)
    assert "limit" not in person.lines[0]


def test_samples_are_thinned_out_and_stay_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from pulpsim.tui import samples as module

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
    from pulpsim.tui.palette import KINDS, ROWS_OF_KIND

    rows = [row for rows in ROWS_OF_KIND for row in rows]
    assert sorted(rows) == list(range(len(CAUSES)))
    for colours in ({k.dark for k in KINDS}, {k.light for k in KINDS}, {k.letter for k in KINDS}):
        assert len(colours) == len(KINDS) == 7

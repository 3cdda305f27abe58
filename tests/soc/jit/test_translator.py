"""Hot segments, translated into machine code: they come to the same as the interpreter."""

import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from random import Random

import numpy as np
import pytest

from firmware.registers import ZERO
from firmware.runtime import new_kernel, team_of
from isa.asm import assemble
from isa.profiles import profile
from isa.program import Program
from soc import code_memory, known_code, segment_code, translation
from soc.decode import HWLOOP, LOOP_END
from soc.hot_code import ISSUE
from soc.interpreter import Interpreter
from soc.kept_files import kept
from soc.result import RunResult
from soc.run import carry_out, prepare, run_program
from soc.segment_path import segment_from
from soc.segment_text import module_text
from soc.segment_writer import STEPS
from soc.spec import SocSpec, load_chip
from soc.translated import Translation
from soc.translation import Translator
from tests.soc.random_programs import random_program
from tests.soc.test_engines import ELFS, End, difference

CYCLES = 200_000


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have found out is not for this one."""
    known_code.forget()
    monkeypatch.setattr(known_code, "KEPT", 0)


@pytest.fixture
def known_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where it is kept what this test finds out."""
    monkeypatch.setattr(known_code, "KEPT", 9)
    monkeypatch.setattr(known_code, "WORTH_KEEPING", 1 << 10)
    monkeypatch.setattr(
        known_code, "_file", lambda name: tmp_path / f"known-{name[0]}-{name[1].hex()}"
    )
    return tmp_path


@pytest.fixture
def nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No machine code but this test's own: what is found depends on nobody else."""
    folder = tmp_path_factory.mktemp("code")
    for module in (translation, known_code):
        monkeypatch.setattr(module, "cache_folder", lambda: folder)


@pytest.fixture
def translates_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Translate what was done a few times, and wait for it."""
    monkeypatch.setattr(Translator, "warm", 16)
    monkeypatch.setattr(Translator, "hot", 64)
    monkeypatch.setattr(Translator, "spacing", 0)
    monkeypatch.setattr(Translator, "waits", True)


@pytest.fixture
def translates_the_hottest(translates_early: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Translate, and wait for, only what takes most of the time."""
    monkeypatch.setattr(Translator, "hot", 1 << 12)


def begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know and have loaded nothing, as another process, and translate nothing more."""
    known_code.forget()
    monkeypatch.setattr(segment_code, "_addresses", {})
    monkeypatch.setattr(Translator, "hot", 1 << 40)


def elf(name: str) -> bytes:
    with tarfile.open(ELFS) as archive:
        file = archive.extractfile(f"pulp_open/{name}.elf")
        assert file
        return file.read()


def product(name: str) -> Program:
    return Program.from_elf(elf(name), name)


def translated(result: RunResult) -> int:
    return int(result.chip.hot_code[0]["translations"])


def both(program: Program, monkeypatch: pytest.MonkeyPatch) -> tuple[End, End]:
    """What the same cycles leave with and without translation."""
    early = run_program(program, max_cycles=CYCLES)
    assert translated(early) > 3
    monkeypatch.setattr(Translator, "warm", 1 << 60)
    late = run_program(program, max_cycles=CYCLES)
    assert translated(late) == 0
    return End.of(early), End.of(late)


def test_the_text_of_segments_calls_steps_that_are_there_with_what_they_take() -> None:
    linked = Interpreter("segments", "ri5cy-x", ()).links.values()
    assert STEPS == {
        link.name: "".join(", ptr" if isinstance(kind, np.dtype) else ", i64" for kind in kinds)
        for link in linked
        for _chip, _hart, *kinds in [link.takes]
    }


@pytest.mark.parametrize("name", ["speed2_mm_hwl", "speed2_mm_2x2", "speed2_mm_naive"])
@pytest.mark.sampled(2)
def test_a_product_leaves_the_same_in_either_way(
    name: str, translates_early: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = both(product(name), monkeypatch)

    assert not difference(vars(one), vars(other))


def test_random_programs_leave_what_the_event_engine_does(
    translates_early: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "warm", 2)
    monkeypatch.setattr(Translator, "hot", 4)
    is_full = request.config.getoption("--full")
    for seed in range(40 if is_full else 1):
        program = random_program(seed, rounds=10, pieces=3)
        results = [
            run_program(program, engine=engine, max_cycles=30_000 if is_full else 10_000)
            for engine in ("compiled", "event")
        ]
        assert translated(results[0]) > 5, seed
        one, other = (vars(End.of(result)) for result in results)
        assert not difference(one, other), (seed, difference(one, other))


def test_what_is_translated_serves_the_next_run_from_its_start(
    translates_early: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = product("speed2_mm_naive")
    first = run_program(program, max_cycles=CYCLES)
    monkeypatch.setattr(Translator, "hot", 1 << 40)
    second = run_program(program, max_cycles=CYCLES)
    codes, heats = (
        [result.chip.segments[name] for result in (first, second)] for name in ("code", "heat")
    )
    is_translated = codes[0] != 0

    assert is_translated.sum() > 3
    assert np.array_equal(codes[0][is_translated], codes[1][is_translated])
    assert np.median((heats[1] - heats[0])[is_translated]) < 10  # of thousands


def test_what_is_translated_serves_another_process(
    nothing_is_kept: None, translates_the_hottest: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = product("speed2_mm_naive")
    first = run_program(program, max_cycles=CYCLES)
    begin_anew(monkeypatch)
    second = run_program(program, max_cycles=CYCLES)

    assert translated(second) == translated(first) > 3
    assert not difference(vars(End.of(first)), vars(End.of(second)))


def test_a_program_that_others_have_run_begins_with_what_they_have_used(
    known_files: Path,
    nothing_is_kept: None,
    translates_early: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = product("speed2_mm_naive")
    first = run_program(program, max_cycles=CYCLES)
    begin_anew(monkeypatch)
    code_memory.known_rows.cache_clear()
    simulation = prepare(program, load_chip("pulp"), "compiled")
    extensions = simulation.extensions
    second = carry_out(simulation, CYCLES)
    is_translated = first.chip.segments["code"] != 0

    assert is_translated.sum() > 3
    assert np.array_equal(is_translated, second.chip.segments["code"] != 0)
    more = (second.chip.segments["heat"] - first.chip.segments["heat"])[is_translated]
    assert np.median(more) < 10  # of thousands
    assert extensions == simulation.extensions
    assert simulation.code.known.row.cache_info().misses == 0
    assert not difference(vars(End.of(first)), vars(End.of(second)))


def test_what_is_known_of_other_steps_is_not_used(
    known_files: Path, translates_early: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = product("speed2_mm_naive")
    assert translated(run_program(program, max_cycles=CYCLES)) > 3
    begin_anew(monkeypatch)
    monkeypatch.setattr(translation, "_steps_key", lambda steps: "changed")

    assert translated(run_program(program, max_cycles=CYCLES)) == 0


def test_what_is_known_is_kept_for_hot_programs_and_anew_when_that_pays(
    known_files: Path, translates_early: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "_translate", lambda self, texts: None)
    monkeypatch.setattr(translation, "cache_folder", lambda: known_files / "segments")
    monkeypatch.setattr(Translator, "warm", 1 << 30)
    monkeypatch.setattr(Translator, "hot", 1 << 30)
    monkeypatch.setattr(known_code, "WARM", 1 << 6)
    looks, last = 0, 0
    for _ in range(24):
        run_program(product("speed2_mm_naive"), max_cycles=20_000)
        (known,) = known_code._known.values()
        doublings = sum((int(heat) >> 6).bit_length() for heat in known.heat.ravel())
        is_worth = known.heat.max() >= known_code.WORTH_KEEPING and doublings > last
        files = list(known_files.iterdir())
        assert (bool(files) and kept(files[0]) == known.to_bytes()) == is_worth
        if is_worth:
            looks, last = looks + 1, doublings

    assert 2 < looks < 20


def test_what_was_changed_of_what_is_known_is_not_used(
    known_files: Path, translates_early: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = product("speed2_mm_naive")
    first = run_program(program, max_cycles=CYCLES)
    (file,) = known_files.iterdir()
    file.write_bytes(file.read_bytes().replace(b"segment_", b"segment-"))
    begin_anew(monkeypatch)
    second = run_program(program, max_cycles=CYCLES)

    assert not difference(vars(End.of(first)), vars(End.of(second)))


def test_runs_that_are_too_short_for_a_translation_add_up(
    translates_early: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[dict] = []
    monkeypatch.setattr(Translator, "hot", 1 << 12)
    monkeypatch.setattr(Translator, "_translate", lambda self, texts: started.append(texts))
    monkeypatch.setattr(translation, "cache_folder", lambda: tmp_path)
    heats = []
    while not started:
        result = run_program(product("speed2_mm_naive"), max_cycles=20_000)
        heats.append(result.chip.segments["heat"])

    assert len(heats) > 3
    for number, heat in enumerate(heats):
        assert np.array_equal(heat, (number + 1) * heats[0])


def loop_behind_rounds(chip: SocSpec) -> Program:
    """Rounds of a word of L1, which the first core counts, and behind them a hardware loop."""
    k = new_kernel(chip, "loop behind rounds")
    word = k.buffer(k.l1, "word", 4)
    with team_of(k, chip, chip.cores) as team, team.only(0):
        rounds, place, value, repeated = k.x(), k.x(), k.x(), k.x()
        k.li(rounds, 200)
        k.li(place, word)
        k.li(repeated, 0)
        again, go_on, behind = k.here(), k.label(), k.label()
        k.lw(value, 0, place)
        k.addi(rounds, rounds, -1)
        k.bne(rounds, ZERO, go_on)
        with k.hwloop(9):
            k.addi(repeated, repeated, 1)
            k.addi(value, value, 2)
            k.addi(value, value, 3)
        k.beq(ZERO, ZERO, behind)
        k.place(go_on)
        k.addi(value, value, 1)
        k.sw(value, 0, place)
        k.beq(ZERO, ZERO, again)
        k.place(behind)
        k.sw(repeated, 0, place)
    return k.build()


def test_a_loop_whose_first_set_up_is_in_a_segment_repeats(translates_early: None) -> None:
    chip = load_chip("pulp")
    program = loop_behind_rounds(chip)
    begun = prepare(program, chip, "compiled")
    early = carry_out(begun, None)
    event = run_program(program, chip, engine="event")

    made = [each.rows for _, each in begun.translator.segments.values() if each.file.exists()]
    kinds = begun.chip.code["kind"][np.concatenate(made)]
    assert HWLOOP in kinds
    assert not difference(vars(End.of(early)), vars(End.of(event)))


def long_loop(chip: SocSpec, seed: int, length: int) -> Program:
    """A hardware loop with so many random loads and stores, most of them at the same bank."""
    random = Random(seed)
    k = new_kernel(chip, "long loop")
    words = k.buffer(k.l1, "words", 4096)
    with team_of(k, chip, chip.cores) as team:
        base, mine, *values = k.x(6)
        team.core(mine)
        k.slli(mine, mine, 6)
        k.li(base, words)
        k.add(base, base, mine)
        with k.hwloop(60):
            for number in range(length):
                kind = random.random()
                if kind < 0.35 or number == length - 3:  # what asks for the start comes behind it
                    k.lw(random.choice(values), 4 * random.randrange(64), base)
                elif kind < 0.5:
                    k.sw(random.choice(values), 4 * random.randrange(64), base)
                else:
                    k.addi(random.choice(values), random.choice(values), random.randrange(9))
    return k.build()


@pytest.mark.parametrize(("seed", "length"), [(0, 34), (2, 34), (6, 38)])
@pytest.mark.sampled(2)
def test_what_a_segment_finds_missing_is_asked_for_at_once(
    seed: int, length: int, translates_early: None
) -> None:
    """The loop is longer than a private cache: who asks the shared one when decides who waits."""
    chip = load_chip("pulp", {"icache.private_size": 128})
    program = long_loop(chip, seed, length)
    early = run_program(program, chip)
    event = run_program(program, chip, engine="event")

    assert translated(early) > 5
    assert not difference(vars(End.of(early)), vars(End.of(event)))


@pytest.mark.parametrize(("cores", "banks"), [(9, 4), (16, 32)])
@pytest.mark.sampled(2)
def test_many_cores_leave_what_the_event_engine_does(
    cores: int, banks: int, translates_early: None
) -> None:
    chip = load_chip("pulp", {"cores": cores, "l1.banks": banks})
    program = long_loop(chip, 1, 26)
    early = run_program(program, chip)
    event = run_program(program, chip, engine="event")

    assert translated(early) > 5
    assert not difference(vars(End.of(early)), vars(End.of(event)))


def test_a_segment_waits_until_it_is_known_where_its_loop_goes_back_to() -> None:
    begun = prepare(product("speed2_mm_hwl"), load_chip("pulp"), "compiled")
    begun.run_on(CYCLES)
    chip = begun.chip
    last = int(chip.harts["lp_last"][0, 0])
    row = (last - int(chip.config[0]["code_base"])) >> 1

    segment = segment_from(chip, row, ISSUE)
    assert segment is not None
    assert segment.places[1].pc == chip.harts["lp_start"][0, 0]
    assert chip.code[row]["flags"] & LOOP_END

    text = module_text(chip, segment, "steps")

    chip.harts["lp_last"] = -1
    assert module_text(chip, segment, "steps") == text
    assert segment_from(chip, row, ISSUE) is None
    assert segment_from(chip, row, ISSUE, leaves=last) is not None


@pytest.mark.parametrize("name", ["speed2_mm_hwl", "speed2_mm_naive"])
@pytest.mark.sampled(2)
def test_a_program_runs_again_as_it_did(name: str, translates_early: None) -> None:
    ends = [vars(End.of(run_program(product(name), max_cycles=CYCLES))) for _ in range(3)]

    assert not difference(ends[0], ends[1])
    assert not difference(ends[0], ends[2])


def test_random_programs_run_again_as_they_did(
    translates_early: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not request.config.getoption("--full"):
        pytest.skip("takes half a minute a seed; --full runs it")
    monkeypatch.setattr(Translator, "warm", 2)
    monkeypatch.setattr(Translator, "hot", 4)
    for seed in range(20):
        program = random_program(seed, rounds=10, pieces=3)
        first, second = (run_program(program, max_cycles=30_000) for _ in range(2))
        assert translated(second) >= translated(first) > 5, seed
        one, other = (vars(End.of(result)) for result in (first, second))
        assert not difference(one, other), (seed, difference(one, other))


FMADD, FMSUB = 0x43, 0x47  # opcodes


def test_of_a_program_that_only_begins_alike_no_other_code_is_used(
    translates_early: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_code, "BEGINNING", 2)
    chip = run_program(product("speed2_mm_naive"), max_cycles=CYCLES).chip
    words = chip.code["word"][chip.segments["is_part"] != 0]
    multiply = int(next(word for word in words if word & 0x7F == FMADD))
    subtract = multiply ^ FMADD ^ FMSUB
    old, new = (word.to_bytes(4, "little") for word in (multiply, subtract))
    program = Program.from_elf(elf("speed2_mm_naive").replace(old, new), "other")

    one, other = both(program, monkeypatch)

    assert not difference(vars(one), vars(other))


def test_a_run_installs_at_once_what_fitted_the_run_before(
    translates_early: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Translation] = []
    fits = Translation.fits
    monkeypatch.setattr(
        Translation, "fits", lambda self, rows: asked.append(self) or fits(self, rows)
    )
    text = "_start: li t0, 2000\nagain: addi t1, t1, 3\naddi t0, t0, -1\nbnez t0, again\nwfi\n"
    program = assemble(text, profile("ri5cy", "x"))
    results, asked_of = [], []
    for _ in range(5):
        results.append(run_program(program, max_cycles=CYCLES))
        asked_of.append(len(asked))
        asked.clear()

    assert asked_of[-1] == 0 < asked_of[1]
    assert translated(results[-1]) > 0
    assert not difference(*(vars(End.of(result)) for result in (results[0], results[-1])))


def test_threads_that_come_to_the_same_code_at_once_load_it_one_after_the_other(
    nothing_is_kept: None, translates_the_hottest: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = product("speed2_mm_naive")
    first = run_program(program, max_cycles=CYCLES)
    begin_anew(monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: run_program(program, max_cycles=CYCLES), range(4)))

    for result in results:
        assert translated(result) == translated(first)
        assert not difference(vars(End.of(first)), vars(End.of(result)))


def test_a_segment_that_cannot_be_translated_stays_interpreted(
    translates_early: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_program(product("speed2_mm_naive"), max_cycles=CYCLES)
    known_code.forget()
    monkeypatch.setattr(segment_code, "_addresses", {})
    monkeypatch.setattr(segment_code, "kept", lambda file: b"")
    assert translated(run_program(product("speed2_mm_naive"), max_cycles=CYCLES)) == 0


def test_a_run_that_uses_translations_imports_no_compiler(
    translates_early: None, tmp_path: Path
) -> None:
    program = product("speed2_mm_naive")
    run_program(program, max_cycles=CYCLES)
    file = tmp_path / "program.elf"
    file.write_bytes(elf("speed2_mm_naive"))
    text = (
        "import sys; from soc.run import run_program; from soc.translation import Translator;"
        f"Translator.warm = 16; result = run_program({str(file)!r}, max_cycles={CYCLES});"
        "print(result.chip.hot_code[0]['translations'] > 3, 'numba' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)

    assert run.stdout == "True False\n"


def test_a_copied_chip_has_no_addresses_of_machine_code(translates_early: None) -> None:
    chip = run_program(product("speed2_mm_naive"), max_cycles=CYCLES).chip
    other = deepcopy(chip)

    assert chip.segments["code"].any()
    assert not other.segments["code"].any()
    assert other.hot_code[0]["translations"] == 0
    assert not other.harts["code"].any()
    assert np.array_equal(chip.harts["regs"], other.harts["regs"])

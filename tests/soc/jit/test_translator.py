"""Hot superblocks, translated into machine code: they come to the same as the interpreter."""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from firmware.registers import ZERO
from firmware.runtime import new_kernel, team_of
from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from isa.program import Program
from soc.aot.cache_file import keep, kept
from soc.chip.spec import SocSpec, load_chip
from soc.core import decode_cache
from soc.core.hotness import ISSUE
from soc.engine.interpreter import Interpreter
from soc.jit.code_cache import INTERPRET_ALL, CodeCache, Policy
from soc.jit.emit_llvm import module_text
from soc.jit.llvm_writer import STEPS
from soc.jit.loaded_code import LoadedCode
from soc.jit.profile_store import ProfileStore
from soc.jit.superblock import superblock_from
from soc.jit.translation import Translation
from soc.prelude.decoded import HWLOOP, LOOP_END
from soc.result import RunResult
from soc.run import carry_out, prepare, run_program
from tests.soc.engine.test_engines import ELFS, End, difference
from tests.soc.random_programs import random_program

CYCLES = 200_000


EARLY = Policy(poll_threshold=16, compile_threshold=64, poll_interval=0, waits=True)
"""Translate what was done a few times, and wait for it."""
EARLIER = replace(EARLY, poll_threshold=2, compile_threshold=4)
LATER = replace(EARLY, compile_threshold=2048)
"""Translate what a loop does often."""
HOTTEST = replace(EARLY, compile_threshold=1 << 12)
"""Translate, and wait for, only what takes most of the time."""
NOTHING_MORE = replace(EARLY, compile_threshold=1 << 40)
"""Use what is translated, as soon as it is interpreted a few times."""


def new_cache(policy: Policy = EARLY, folder: Path | None = None) -> CodeCache:
    """A code cache that knows of no program; machine code may be there from other tests.

    folder    of machine code that is this test's own
    """
    return CodeCache(folder, policy, ProfileStore(files=0))


def with_profiles(folder: Path, policy: Policy = EARLY) -> CodeCache:
    """A code cache that keeps profiles in a folder of this test's own."""
    return CodeCache(None, policy, ProfileStore(folder, worth_keeping=1 << 10))


@pytest.fixture
def early() -> CodeCache:
    return new_cache()


@pytest.fixture(scope="module")
def translated_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the machine code of what takes most of a product's time."""
    folder = tmp_path_factory.mktemp("translated")
    run_program(
        product("speed2_mm_naive"), max_cycles=CYCLES, code_cache=new_cache(HOTTEST, folder)
    )
    return folder


def elf(name: str) -> bytes:
    with tarfile.open(ELFS) as archive:
        file = archive.extractfile(f"pulp_open/{name}.elf")
        assert file
        return file.read()


def product(name: str) -> Program:
    return Program.from_elf(elf(name), name)


def translated(result: RunResult) -> int:
    return int(result.chip.hot_code[0]["translations"])


def both(program: Program, cache: CodeCache) -> tuple[End, End]:
    """What the same cycles leave with and without translation."""
    one = run_program(program, max_cycles=CYCLES, code_cache=cache)
    assert translated(one) > 3
    other = run_program(program, max_cycles=CYCLES, code_cache=new_cache(INTERPRET_ALL))
    assert translated(other) == 0
    return End.of(one), End.of(other)


def test_the_text_of_superblocks_calls_steps_that_are_there_with_what_they_take() -> None:
    linked = Interpreter("superblocks", "ri5cy-x", ()).links.values()
    assert STEPS == {
        link.name: "".join(", ptr" if isinstance(kind, np.dtype) else ", i64" for kind in kinds)
        for link in linked
        for _chip, _hart, *kinds in [link.takes]
    }


@pytest.mark.parametrize("name", ["speed2_mm_hwl", "speed2_mm_2x2", "speed2_mm_naive"])
@pytest.mark.sampled(2)
def test_a_product_leaves_the_same_in_either_way(name: str, request: pytest.FixtureRequest) -> None:
    is_full = request.config.getoption("--full")
    one, other = both(product(name), new_cache(EARLY if is_full else LATER))

    assert not difference(vars(one), vars(other))


def test_random_programs_leave_what_the_event_engine_does(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    is_full = request.config.getoption("--full")
    cache = new_cache(EARLIER, tmp_path)
    for seed in range(40) if is_full else (3,):
        program = random_program(seed, rounds=10, pieces=3 if is_full else 1)
        limit = 30_000 if is_full else 900  # 64 superblocks
        results = [
            run_program(program, engine=engine, max_cycles=limit, code_cache=cache)
            for engine in ("compiled", "event")
        ]
        assert translated(results[0]) > 5, seed
        one, other = (vars(End.of(result)) for result in results)
        assert not difference(one, other), (seed, difference(one, other))


def test_what_is_translated_serves_the_next_run_from_its_start(early: CodeCache) -> None:
    program = product("speed2_mm_naive")
    first = run_program(program, max_cycles=CYCLES, code_cache=early)
    early.policy = NOTHING_MORE
    second = run_program(program, max_cycles=CYCLES, code_cache=early)
    codes, counts = (
        [result.chip.superblocks[name] for result in (first, second)]
        for name in ("code", "hotness")
    )
    is_translated = codes[0] != 0

    assert is_translated.sum() > 3
    assert np.array_equal(codes[0][is_translated], codes[1][is_translated])
    assert np.median((counts[1] - counts[0])[is_translated]) < 10  # of thousands


def test_what_is_translated_serves_another_process(tmp_path: Path) -> None:
    program = product("speed2_mm_naive")
    first, second = (
        run_program(program, max_cycles=CYCLES, code_cache=new_cache(policy, tmp_path))
        for policy in (HOTTEST, NOTHING_MORE)
    )

    assert translated(second) == translated(first) > 3
    assert not difference(vars(End.of(first)), vars(End.of(second)))


def test_a_program_that_others_have_run_begins_with_what_they_have_used(tmp_path: Path) -> None:
    program = product("speed2_mm_naive")
    first = run_program(program, max_cycles=CYCLES, code_cache=with_profiles(tmp_path))
    decode_cache.known_rows.cache_clear()
    other = with_profiles(tmp_path, NOTHING_MORE)
    simulation = prepare(program, load_chip("pulp"), "compiled", code_cache=other)
    extensions = simulation.extensions
    second = carry_out(simulation, CYCLES)
    is_translated = first.chip.superblocks["code"] != 0

    assert is_translated.sum() > 3
    assert np.all(second.chip.superblocks["code"][is_translated])  # and of other tests, maybe more
    more = (second.chip.superblocks["hotness"] - first.chip.superblocks["hotness"])[is_translated]
    assert np.median(more) < 10  # of thousands
    assert extensions == simulation.extensions
    assert simulation.code.known.row.cache_info().misses == 0
    assert not difference(vars(End.of(first)), vars(End.of(second)))


class OtherSteps(CodeCache):
    """A code cache whose superblocks consist of other step functions."""

    def key(self, steps: Interpreter) -> str:
        return f"changed {super().key(steps)}"


def test_a_profile_with_other_steps_is_not_used(tmp_path: Path) -> None:
    program = product("speed2_mm_naive")
    first = run_program(program, max_cycles=CYCLES, code_cache=with_profiles(tmp_path))
    assert translated(first) > 3
    profiles = ProfileStore(tmp_path, worth_keeping=1 << 10)
    other = OtherSteps(None, NOTHING_MORE, profiles)

    assert translated(run_program(program, max_cycles=CYCLES, code_cache=other)) == 0
    assert len(profiles.profiles) == 1


class Refusing(CodeCache):
    """A code cache that translates nothing; it notes what it was to translate."""

    def translate(self, steps: str, texts: Mapping[str, str]) -> None:
        self.refused = texts


def test_a_profile_is_kept_for_hot_programs_and_anew_when_that_pays(tmp_path: Path) -> None:
    policy = Policy(poll_threshold=1 << 30, compile_threshold=1 << 30, waits=True)
    files = tmp_path / "profiles"
    files.mkdir()
    store = ProfileStore(files, worth_keeping=1 << 10, poll_threshold=1 << 6)
    cache = Refusing(tmp_path, policy, store)
    looks, last = 0, 0
    for _ in range(24):
        run_program(product("speed2_mm_naive"), max_cycles=20_000, code_cache=cache)
        (profile,) = store.profiles.values()
        doublings = sum((int(count) >> 6).bit_length() for count in profile.counts.ravel())
        is_worth = profile.counts.max() >= 1 << 10 and doublings > last
        there = list(files.iterdir())
        assert (bool(there) and kept(there[0]) == profile.to_bytes()) == is_worth
        if is_worth:
            looks, last = looks + 1, doublings

    assert 2 < looks < 20


def test_a_profile_that_was_changed_is_not_used(tmp_path: Path) -> None:
    program = product("speed2_mm_naive")
    first = run_program(program, max_cycles=CYCLES, code_cache=with_profiles(tmp_path))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().replace(b"superblock_", b"superblock-"))
    other = with_profiles(tmp_path, NOTHING_MORE)
    second = run_program(program, max_cycles=CYCLES, code_cache=other)

    assert not difference(vars(End.of(first)), vars(End.of(second)))


def test_runs_that_are_too_short_for_a_translation_add_up(tmp_path: Path) -> None:
    cache = Refusing(tmp_path, HOTTEST, ProfileStore(files=0))
    cache.refused = {}
    counts = []
    while not cache.refused:
        result = run_program(product("speed2_mm_naive"), max_cycles=20_000, code_cache=cache)
        counts.append(result.chip.superblocks["hotness"])

    assert len(counts) > 3
    is_often = counts[0] > 100  # the others: how far harts run ahead depends on polls
    assert is_often.any()
    for number, count in enumerate(counts):
        assert np.array_equal(count[is_often], (number + 1) * counts[0][is_often])


def loop_after_rounds(chip: SocSpec) -> Program:
    """Rounds of a word of L1, which the first core counts, and after them a hardware loop."""
    k = new_kernel(chip, "loop after rounds")
    word = k.buffer(k.l1, "word", 4)
    with team_of(k, chip, chip.cores) as team, team.only(0):
        rounds, place, value, repeated = k.x(), k.x(), k.x(), k.x()
        k.li(rounds, 200)
        k.li(place, word)
        k.li(repeated, 0)
        again, go_on, after = k.here(), k.label(), k.label()
        k.lw(value, 0, place)
        k.addi(rounds, rounds, -1)
        k.bne(rounds, ZERO, go_on)
        with k.hwloop(9):
            k.addi(repeated, repeated, 1)
            k.addi(value, value, 2)
            k.addi(value, value, 3)
        k.beq(ZERO, ZERO, after)
        k.place(go_on)
        k.addi(value, value, 1)
        k.sw(value, 0, place)
        k.beq(ZERO, ZERO, again)
        k.place(after)
        k.sw(repeated, 0, place)
    return k.build()


def test_a_loop_whose_first_set_up_is_in_a_superblock_repeats(early: CodeCache) -> None:
    chip = load_chip("pulp")
    program = loop_after_rounds(chip)
    begun = prepare(program, chip, "compiled", code_cache=early)
    compiled = carry_out(begun, None)
    event = run_program(program, chip, engine="event")

    made = [each.rows for _, each in begun.translator.superblocks.values() if each.file.exists()]
    kinds = begun.chip.code["kind"][np.concatenate(made)]
    assert HWLOOP in kinds
    assert not difference(vars(End.of(compiled)), vars(End.of(event)))


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
                if kind < 0.35 or number == length - 3:  # what asks for the start comes after it
                    k.lw(random.choice(values), 4 * random.randrange(64), base)
                elif kind < 0.5:
                    k.sw(random.choice(values), 4 * random.randrange(64), base)
                else:
                    k.addi(random.choice(values), random.choice(values), random.randrange(9))
    return k.build()


@pytest.mark.parametrize(("seed", "length"), [(0, 34), (2, 34), (6, 38)])
@pytest.mark.sampled(3)
def test_what_a_superblock_finds_missing_is_asked_for_at_once(
    seed: int, length: int, early: CodeCache
) -> None:
    """The loop is longer than a private cache: who asks the shared one when decides who waits."""
    chip = load_chip("pulp", {"icache.private_size": 128})
    program = long_loop(chip, seed, length)
    compiled = run_program(program, chip, code_cache=early)
    event = run_program(program, chip, engine="event")

    assert translated(compiled) > 5
    assert not difference(vars(End.of(compiled)), vars(End.of(event)))


def short_loop(chip: SocSpec, before: int) -> Program:
    """A hardware loop of one core after so many instructions; what follows it is in other lines."""
    k = new_kernel(chip, "short loop")
    word = k.buffer(k.l1, "word", 4)
    with team_of(k, chip, chip.cores) as team, team.only(0):
        place, value, other = k.x(3)
        k.li(place, word)
        for _ in range(before):
            k.addi(other, other, 1)
        with k.hwloop(2000):
            k.lw(value, 0, place)
            k.addi(other, other, 1)
            k.addi(value, value, 1)
            k.sw(value, 0, place)
            k.addi(other, other, 3)
        for _ in range(8):
            k.addi(other, other, 2)
    return k.build()


@pytest.mark.parametrize("before", range(4))
def test_a_loop_that_goes_back_before_it_asks_for_the_next_line_stays_translated(
    before: int, early: CodeCache
) -> None:
    """It ends with the first or the second word of a line: a jump takes back what is asked for."""
    chip = load_chip("pulp")
    program = short_loop(chip, before)
    compiled = run_program(program, chip, code_cache=early)
    event = run_program(program, chip, engine="event")

    last = int(compiled.chip.harts["lp_last"][0].max())
    assert not difference(vars(End.of(compiled)), vars(End.of(event)))
    if last & 12 < 8:
        assert compiled.chip.superblocks["hotness"].max() < 1000


@pytest.mark.parametrize(("cores", "banks"), [(9, 4), (16, 32)])
@pytest.mark.sampled(2)
def test_many_cores_leave_what_the_event_engine_does(
    cores: int, banks: int, early: CodeCache
) -> None:
    chip = load_chip("pulp", {"cores": cores, "l1.banks": banks})
    program = long_loop(chip, 1, 26)
    compiled = run_program(program, chip, code_cache=early)
    event = run_program(program, chip, engine="event")

    assert translated(compiled) > 5
    assert not difference(vars(End.of(compiled)), vars(End.of(event)))


def test_a_superblock_waits_until_it_is_known_where_its_loop_goes_back_to() -> None:
    begun = prepare(product("speed2_mm_hwl"), load_chip("pulp"), "compiled")
    begun.run_on(CYCLES)
    chip = begun.chip
    last = int(chip.harts["lp_last"][0, 0])
    row = (last - int(chip.config[0]["code_base"])) >> 1

    superblock = superblock_from(chip, row, ISSUE)
    assert superblock is not None
    assert superblock.places[1].pc == chip.harts["lp_start"][0, 0]
    assert chip.code[row]["flags"] & LOOP_END

    text = module_text(chip, superblock, "steps")

    chip.harts["lp_last"] = -1
    assert module_text(chip, superblock, "steps") == text
    assert superblock_from(chip, row, ISSUE) is None
    assert superblock_from(chip, row, ISSUE, left_loop=last) is not None


def test_a_superblock_passes_the_end_of_a_loop_that_no_instruction_sets_up() -> None:
    begun = prepare(product("speed2_mm_naive"), load_chip("pulp"), "compiled")
    begun.run_on(CYCLES)
    rows = begun.chip.code
    row = int(np.flatnonzero(begun.chip.superblocks["hotness"][:, ISSUE])[0])
    before = superblock_from(begun.chip, row, ISSUE)
    assert before is not None
    rows["flags"][[place.row for place in before.places]] |= LOOP_END

    assert superblock_from(begun.chip, row, ISSUE) == before
    rows[row - 1]["kind"], rows[row - 1]["imm"] = HWLOOP, 2
    assert superblock_from(begun.chip, row, ISSUE) is None


@pytest.mark.parametrize("name", ["speed2_mm_naive", "speed2_mm_hwl"])
@pytest.mark.sampled(2)
def test_a_program_runs_again_as_it_did(name: str, request: pytest.FixtureRequest) -> None:
    cache = new_cache(EARLY if request.config.getoption("--full") else HOTTEST)
    runs = (run_program(product(name), max_cycles=CYCLES, code_cache=cache) for _ in range(3))
    ends = [vars(End.of(run)) for run in runs]

    assert not difference(ends[0], ends[1])
    assert not difference(ends[0], ends[2])


def test_random_programs_run_again_as_they_did(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--full"):
        pytest.skip("takes half a minute a seed; --full runs it")
    cache = new_cache(EARLIER)
    for seed in range(20):
        program = random_program(seed, rounds=10, pieces=3)
        first, second = (
            run_program(program, max_cycles=30_000, code_cache=cache) for _ in range(2)
        )
        assert translated(second) >= translated(first) > 5, seed
        one, other = (vars(End.of(result)) for result in (first, second))
        assert not difference(one, other), (seed, difference(one, other))


FMADD, FMSUB = 0x43, 0x47  # opcodes


def test_of_a_program_that_only_begins_alike_no_other_code_is_used() -> None:
    cache = CodeCache(policy=LATER, profiles=ProfileStore(files=0, beginning=2))
    chip = run_program(product("speed2_mm_naive"), max_cycles=CYCLES, code_cache=cache).chip
    words = chip.code["word"][chip.superblocks["is_part"] != 0]
    multiply = int(next(word for word in words if word & 0x7F == FMADD))
    subtract = multiply ^ FMADD ^ FMSUB
    old, new = (word.to_bytes(4, "little") for word in (multiply, subtract))
    program = Program.from_elf(elf("speed2_mm_naive").replace(old, new), "other")

    one, other = both(program, cache)

    assert not difference(vars(one), vars(other))


class Asked(LoadedCode):
    """Loaded code that notes which translations it was asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Translation] = []

    def fits(self, made: Translation, decoded: np.ndarray) -> bool:
        self.asked.append(made)
        return super().fits(made, decoded)


def test_a_run_installs_at_once_what_fitted_the_run_before(early: CodeCache) -> None:
    early.loaded = loaded = Asked()
    text = "_start: li t0, 2000\nagain: addi t1, t1, 3\naddi t0, t0, -1\nbnez t0, again\nwfi\n"
    program = assemble(text, profile("ri5cy", "x"))
    results, asked_of = [], []
    for _ in range(5):
        results.append(run_program(program, max_cycles=CYCLES, code_cache=early))
        asked_of.append(len(loaded.asked))
        loaded.asked.clear()

    assert asked_of[-1] == 0 < asked_of[1]
    assert translated(results[-1]) > 0
    assert not difference(*(vars(End.of(result)) for result in (results[0], results[-1])))


def test_threads_that_come_to_the_same_code_at_once_load_it_one_after_the_other(
    translated_before: Path,
) -> None:
    program = product("speed2_mm_naive")
    first = run_program(
        program, max_cycles=CYCLES, code_cache=new_cache(NOTHING_MORE, translated_before)
    )
    assert translated(first) > 3
    cache = new_cache(NOTHING_MORE, translated_before)
    with ThreadPoolExecutor(4) as pool:
        runs = [
            pool.submit(run_program, program, max_cycles=CYCLES, code_cache=cache) for _ in range(4)
        ]
        results = [run.result() for run in runs]

    for result in results:
        assert translated(result) == translated(first)
        assert not difference(vars(End.of(first)), vars(End.of(result)))


def test_a_superblock_that_cannot_be_translated_stays_interpreted(
    translated_before: Path, tmp_path: Path
) -> None:
    program = product("speed2_mm_naive")
    shutil.copytree(translated_before, tmp_path, dirs_exist_ok=True)
    files = list(tmp_path.iterdir())
    for file in files:
        keep(file, b"", len(files))
    cache = new_cache(NOTHING_MORE, tmp_path)
    result = run_program(program, max_cycles=CYCLES, code_cache=cache)

    assert translated(result) == 0
    assert len(cache.loaded.addresses) > 3
    assert set(cache.loaded.addresses.values()) == {0}


def test_a_run_that_uses_translations_imports_no_compiler(early: CodeCache, tmp_path: Path) -> None:
    program = product("speed2_mm_naive")
    run_program(program, max_cycles=CYCLES, code_cache=early)
    file = tmp_path / "program.elf"
    file.write_bytes(elf("speed2_mm_naive"))
    text = (
        "import sys; from soc.run import run_program; from soc.jit.code_cache import *;"
        f"cache = CodeCache(policy=Policy(poll_threshold=16));"
        f"result = run_program({str(file)!r}, max_cycles={CYCLES}, code_cache=cache);"
        "print(result.chip.hot_code[0]['translations'] > 3, 'numba' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)

    assert run.stdout == "True False\n"


def test_a_copied_chip_has_no_addresses_of_machine_code(early: CodeCache) -> None:
    chip = run_program(product("speed2_mm_naive"), max_cycles=CYCLES, code_cache=early).chip
    other = deepcopy(chip)

    assert chip.superblocks["code"].any()
    assert not other.superblocks["code"].any()
    assert other.hot_code[0]["translations"] == 0
    assert not other.harts["code"].any()
    assert np.array_equal(chip.harts["regs"], other.harts["regs"])

"""Checkpoints as files: the run goes on from them as if it had not been interrupted."""

import re
import zipfile
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from isa.assembler.asm import assemble
from isa.program import Program
from soc.chip.spec import load_chip
from soc.chip.state import ARRAYS, OF_THIS_RUN, Chip
from soc.config.toml import ConfigError
from soc.debug.checkpoint_file import CheckpointFile, save, save_at
from soc.debug.plain_json import decoded, encoded
from soc.peripherals.timer import Counter
from soc.run import prepare, run_program
from soc.simulation import Simulation
from soc.trace.reader import Trace
from soc.trace.recorder import Recording
from tests.soc.debug.test_session import differing
from tests.soc.random_programs import ENTRY, ISA, random_program
from trainlib.launch import program as kernel

NEVER = 10**9
NOTES = ("trace", "trace_sorted", "trace_places", "recorder")
STATE = [name for name in ARRAYS if name not in (*OF_THIS_RUN, *NOTES, "code")]


def kept_at(program: Program, cycle: int, file) -> Simulation:
    """A simulation of the program in a cycle, of which a file is written."""
    simulation = prepare(program, "pulp", "compiled")
    assert save_at(simulation, cycle, file) is None
    return simulation


def resumed(program: Program, file) -> Simulation:
    simulation = prepare(program, "pulp", "compiled")
    CheckpointFile(file).restore(simulation)
    return simulation


KERNELS = {
    "matmul_f32": {"n": 12, "k": 12, "m": 12},
    "conv2d_fw_f32": {"inputs": 2, "outputs": 4, "height": 6, "width": 6, "kernel": 3},
    "layernorm_fw_f32": {"rows": 4, "columns": 16},
    "train_f32": {"lr": 0.1, "input": [8], "layers": [{"kind": "linear", "outputs": 4}]},
}


def programs(random: int, kernels: int) -> Iterator[Program]:
    """So many random ones, and kernels with their data."""
    yield from map(random_program, range(random))
    for name, arguments in [*KERNELS.items()][:kernels]:
        yield kernel(name, arguments).program


def without_accounts(chip: Chip) -> np.ndarray:
    """Harts without what only trace points keep."""
    harts = chip.harts.copy()
    harts["accounted"] = harts["open"] = 0
    return harts


def assert_same(one: Simulation, other: Simulation) -> None:
    names = [name for name in STATE if name not in ("harts", "banks")]
    assert differing(one.chip, other.chip, names) == []
    for name in set(one.chip.banks.dtype.names) - {"following"}:  # of a cycle under way alone
        assert one.chip.banks[name].tobytes() == other.chip.banks[name].tobytes(), name
    assert without_accounts(one.chip).tobytes() == without_accounts(other.chip).tobytes()


def test_programs_go_on_from_random_cycles_to_the_same_end(
    tmp_path, request: pytest.FixtureRequest
) -> None:
    """--full: 100 cycles each of 20 programs, 4 of which are kernels with the DMA."""
    is_full = request.config.getoption("--full")
    file, random = tmp_path / "run.checkpoint", Random(1)
    for program in programs(16 if is_full else 2, len(KERNELS) if is_full else 1):
        whole = prepare(program, "pulp", "compiled")
        end = whole.run(NEVER)
        for _ in range(100 if is_full else 2):
            cycle = random.randrange(whole.cycle)
            here = kept_at(program, cycle, file)
            again = resumed(program, file)
            assert again.cycle == cycle
            assert_same(here, again)
            assert again.run(NEVER) == end
            assert_same(whole, again)
            assert again.console.text == whole.console.text


def test_the_trace_of_what_comes_after_is_the_same(
    tmp_path, request: pytest.FixtureRequest
) -> None:
    """--full: from 100 cycles each of 20 programs."""
    is_full, random = request.config.getoption("--full"), Random(2)
    for program in programs(16 if is_full else 2, len(KERNELS) if is_full else 1):
        whole, expected = traced(program, tmp_path)
        for _ in range(100 if is_full else 2):
            cycle = random.randrange(expected["cycles"])
            kept_at(program, cycle, tmp_path / "c")
            begin = CheckpointFile(tmp_path / "c").restore
            events, result = traced(program, tmp_path, cycle, begin)
            assert result == expected
            assert rest_of(events, cycle) == rest_of(whole, cycle), cycle


def traced(program: Program, folder, first: int = 0, begin=lambda simulation: None):
    """All events from a cycle on, and what the run leaves."""
    recording = Recording(folder / "run.trace", filters=(f"cycle={first}-{NEVER}",))
    result = run_program(program, trace=recording, begin=begin)
    events = Trace.open(recording.file).events.copy()
    events["cycle"] += first
    return events, {**result.to_json(), "host": 0}


def rest_of(events: np.ndarray, cycle: int) -> list[tuple]:
    """What begins in a cycle or after it, in an order of its own."""
    return sorted(events[events["cycle"] > cycle].tolist())


def test_a_cycle_in_which_the_host_side_is_busy_is_come_to_from_an_earlier_one(tmp_path) -> None:
    source = "_start:\nli s0, 0x1A10F000\nli s1, 65\nagain: sb s1, 0(s0)\nj again\n"
    program = assemble(source, ISA, text_base=ENTRY)
    for cycle in range(100, 112):
        here = kept_at(program, cycle, tmp_path / "c")
        again = resumed(program, tmp_path / "c")
        assert again.console.text == here.console.text
        assert_same(here, again)
        again.run_on(400)
        here.run_on(400)
        assert_same(here, again)


def test_plain_data_comes_back_as_it_was() -> None:
    value = {
        (1, "a"): [None, True, -3, (b"\x00\xff", {4, 5}), frozenset(("x", "y"))],
        "counter": Counter(value=7),
    }
    back = decoded(encoded(value))
    assert back == value
    assert type(back[1, "a"][3][1]) is set
    with pytest.raises(ValueError, match=r"^\"\{'list': 3\}\" is no data$"):
        decoded({"list": 3})


REFUSALS = {
    "program": r"^{file}: is of another program than source$",
    "chip": r"^{file}: is of a chip with another l1\.banks$",
    "missing": r"^{file}: cannot be read: No such file or directory$",
    "cut": r"^{file}: is no checkpoint, or damaged$",
    "format": r"^{file}: its format is 'pulpsim\.checkpoint/9', not 'pulpsim\.checkpoint/1'$",
    "layout": r"^{file}: is of another version of the simulator; take it anew$",
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_does_not_fit_is_refused_by_name(what: str, tmp_path) -> None:
    program, other = (
        assemble(f"_start: li a0, {k}\nj _start", ISA, text_base=ENTRY) for k in (1, 2)
    )
    file = tmp_path / "c"
    kept_at(program, 50, file)
    message = REFUSALS[what].format(file=re.escape(str(file)))
    chip = load_chip("pulp")
    if what == "chip":
        chip = chip.model_copy(update={"l1": chip.l1.model_copy(update={"banks": 32})})
    elif what == "missing":
        file.unlink()
    elif what == "cut":
        file.write_bytes(file.read_bytes()[:2000])
    elif what == "format":
        replace_in(file, b"pulpsim.checkpoint/1", b"pulpsim.checkpoint/9")
    elif what == "layout":
        replace_in(file, b'"layout": "', b'"layout": "0')
    with pytest.raises(ConfigError) as error:
        CheckpointFile(file).restore(
            prepare(other if what == "program" else program, chip, "compiled")
        )
    assert re.fullmatch(message, error.value.mistakes[0])


def replace_in(file, old: bytes, new: bytes) -> None:
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries["about.json"] = entries["about.json"].replace(old, new)
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def test_damaged_files_are_refused_without_a_traceback(tmp_path) -> None:
    program, random = random_program(3), Random(1)
    file = tmp_path / "c"
    kept_at(program, 700, file)
    whole = file.read_bytes()
    refused = 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(random.choice((1, 3, 20))):
            data[random.randrange(len(data))] = random.randrange(256)
        file.write_bytes(data)
        try:
            resumed(program, file)
        except ConfigError:
            refused += 1
    assert refused > 40


@pytest.mark.parametrize(
    ("engine", "cycle", "message"),
    [
        ("event", 10, "the event engine has no checkpoints; use the compiled engine"),
        ("compiled", NEVER, r"the program has ended in cycle \d+"),
    ],
)
def test_what_cannot_be_kept_is_refused(engine: str, cycle: int, message: str, tmp_path) -> None:
    simulation = prepare(random_program(3), "pulp", engine)
    simulation.run_on(cycle)
    with pytest.raises(ConfigError) as error:
        save(simulation, tmp_path / "c")
    assert re.fullmatch(rf"{re.escape(str(tmp_path))}/c: {message}", error.value.mistakes[0])


def test_checks_cannot_begin_in_the_middle(tmp_path) -> None:
    program = random_program(3)
    kept_at(program, 100, tmp_path / "c")
    with pytest.raises(ConfigError) as error:
        run_program(program, checks=("races",), begin=CheckpointFile(tmp_path / "c").restore)
    assert error.value.mistakes == [
        f"{tmp_path}/c: what came before it is not known to checks; run from the start"
    ]


def test_a_run_that_is_checked_can_be_kept(tmp_path) -> None:
    program = random_program(3)

    def begin(simulation: Simulation) -> None:
        save_at(simulation, 300, tmp_path / "c")

    run_program(program, checks=("memory",), begin=begin)
    assert_same(resumed(program, tmp_path / "c"), kept_at(program, 300, tmp_path / "d"))


def test_a_stall_that_was_charged_ahead_is_in_the_trace_of_what_comes_after(tmp_path) -> None:
    """The fetch of what follows a division is lost long before its cycle comes."""
    program, cycle = random_program(3), 2551
    kept_at(program, cycle, tmp_path / "c")
    whole, _ = traced(program, tmp_path)
    events, _ = traced(program, tmp_path, cycle, CheckpointFile(tmp_path / "c").restore)
    assert rest_of(events, cycle) == rest_of(whole, cycle)

"""Sessions: however often a run stops or goes back, it is the same run."""

import re
from collections import Counter
from random import Random

import numpy as np
import pytest

from isa.assembler.asm import assemble
from isa.assembler.disasm import disassemble
from isa.program import Program
from soc.chip.state import ARRAYS, OF_THIS_RUN, Chip
from soc.debug.session import Session, Stop
from soc.run import ENGINES, prepare, run_program
from soc.simulation import Simulation
from tests.soc.random_programs import ENTRY, ISA, random_program

NEVER = 10**9
STATE = [name for name in ARRAYS if name not in OF_THIS_RUN]
SMALL = [name for name in STATE if name != "code"]


def uninterrupted(program: Program, cycle: int, engine: str = "compiled") -> Simulation:
    """A simulation that has run up to a cycle at once."""
    simulation = prepare(program, "pulp", engine)
    simulation.run(cycle)
    return simulation


NOTES = {
    "fetch": "mode word arrival left head next arrivals leaves free loop_pc turn".split(),
    "icache": "due wake listed answered".split(),
    "harts": "accounted open".split(),
    "dma": ["stream"],
}
"""What is no state of the chip. What the DMA's last stream was. Where a trace's next stall counts
from: runs without a trace do not keep track of it, checkpoints do. And fetches under way: they are
written down one by one, or as a steady stream, as far as the compiled engine looks; contents of the
caches, and when what comes, do not depend on that."""


def differing(one: Chip, other: Chip, names: list[str] = SMALL) -> list[str]:
    """The arrays that are not equal in every byte, but for the notes."""
    return [
        name
        for name in names
        if not np.array_equal(*(without_notes(name, getattr(chip, name)) for chip in (one, other)))
    ]


def without_notes(name: str, array: np.ndarray) -> np.ndarray:
    if name in NOTES:
        array = array.copy()
        for field in NOTES[name]:
            array[field] = 0
    return array.view("u1")


def eager(session: Session) -> Session:
    """Let it take checkpoints whenever it can."""
    session._history.shortest = session._history.due = session._history.share = 0
    session._piece = 16
    return session


@pytest.fixture(scope="module", params=[3, 8])
def program(request: pytest.FixtureRequest) -> Program:
    return random_program(request.param)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_in_steps_is_the_same_in_every_byte(program: Program, engine: str) -> None:
    random, session = Random(1), Session(program, engine=engine)
    for _ in range(8):
        for _ in range(random.randrange(30)):
            session.step(random.choice((1, 1, 2, 7, 40)))
        reference = uninterrupted(program, session.cycle, engine)
        assert differing(session.chip, reference.chip) == []
    session.go_to(NEVER)
    assert differing(session.chip, uninterrupted(program, NEVER, engine).chip, STATE) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.sampled
def test_back_and_forth_it_is_the_same_in_every_byte(program: Program, engine: str) -> None:
    random, session = Random(2), Session(program, engine=engine)
    while eager(session).end is None:
        session.step(100)
    end = session.cycle
    cycles = [random.randrange(end) for _ in range(6)]
    for cycle in cycles:
        session.go_to(cycle)
        assert session.cycle == cycle
        assert differing(session.chip, uninterrupted(program, cycle, engine).chip) == []
    session.go_to(cycles[0])
    reference = uninterrupted(program, cycles[0], engine)
    assert differing(session.chip, reference.chip, STATE) == []
    kept = len(session._history.kept)
    assert kept > 10 if engine == "compiled" else kept == 0


def test_the_end_is_reported_as_by_an_uninterrupted_run(program: Program) -> None:
    text: list[str] = []
    session = Session(program, on_console=text.append)
    while session.end is None:
        session.step(-50)
        session.go_on(session.cycle + 150)
    reference = run_program(program)
    result = session.result().to_json()
    expected = reference.to_json()
    assert {**result, "host": 0} == {**expected, "host": 0}
    assert "".join(text) == reference.console


def test_what_is_printed_again_is_shown_once() -> None:
    source = "_start:\nli s0, 0x1A10F000\nli s2, 26\nli s1, 65\n"
    source += "again: sb s1, 0(s0)\naddi s1, s1, 1\naddi s2, s2, -1\nbnez s2, again\nend: j end\n"
    text: list[str] = []
    session = Session(assemble(source, ISA, text_base=ENTRY), on_console=text.append)
    for cycle in (300, 100, 450, 0, 700, 699, 2000):
        session.go_to(cycle)
    assert "".join(text) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    session.go_to(300)
    reference = uninterrupted(session.program, 300)
    assert session._simulation.console.text == reference.console.text


def test_a_checkpoint_has_all_that_peripherals_remember() -> None:
    """Timers that count without events, FIFO, masks and warnings, changed before and after it."""
    source = """
    _start:
        li s0, 0x1A10B000           # timer: counts, no event
        li t0, 1
        sw t0, 0(s0)
        li s1, 0x1A106000           # SoC events
        sw zero, 8(s1)
        li s2, 0x1A109800           # interrupt controller
        li t0, 0x1234
        sw t0, 12(s2)
        li s3, 0x1A104000
        sw t0, 0x74(s3)
        lw t0, 0x3fc(s3)            # nothing there: a warning
        li s4, 100
    wait:
        addi s4, s4, -1
        bnez s4, wait
        lw a0, 8(s0)
        lw a1, 0(s2)
        lw a2, 0x74(s3)
        lw a3, 0x3fc(s3)
        li t0, 1
        sw t0, 0(s1)
        li t0, 0x80000007
        sw t0, 0xA0(s3)
    end: j end
    """
    program = assemble(source, ISA, text_base=ENTRY)
    end = run_program(program)
    session = eager(Session(program))
    while session.end is None:
        session.step(20)
    kept = [one.cycle for one in session._history.kept]
    assert kept[-1] > session.cycle - 100
    for cycle in kept:
        session.go_to(cycle)
        session.go_to(NEVER)
        assert differing(session.chip, uninterrupted(program, NEVER).chip) == []
    assert {**session.result().to_json(), "host": 0} == {**end.to_json(), "host": 0}
    assert end.warnings


def test_registers_that_are_neither_plain_data_nor_ports_would_be_forgotten() -> None:
    """Each attribute of the platform's parts is copied or one of the kinds that do not change."""
    from soc.debug.checkpoint import host_parts, is_plain

    platform = prepare(random_program(0), "pulp", "compiled").platform
    assert platform
    constant = {
        *("Environment", "Chip", "SocSpec", "PeripheralsSpec", "Block", "void", "method", "type"),
        *(
            "function",
            "builtin_function_or_method",
            "partial",
            "DmaPort",
            "PeripheralAccess",
            "Peripherals",
            "ClusterControl",
            "InterruptController",
            *("L2Window", "HyperBus", "BoardMemory", "ToL2", "ToPeripheral"),  # parts themselves
        ),
    }
    kinds = Counter(
        f"{type(part).__name__}.{name}: {type(value).__name__}"
        for part in host_parts(platform)
        for name, value in vars(part).items()
        if not is_plain(value) and type(value).__name__ not in constant
    )
    tables = re.compile(
        r"\w+\.(loads|stores|events|regions|queue|dma_ports|targets|makers|channels|devices): "
        r"(dict|tuple|Store)"
    )
    assert [kind for kind in kinds if not tables.fullmatch(kind)] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_breakpoints_stop_in_the_cycle_of_each_issue_there(program: Program, engine: str) -> None:
    issues = run_program(program, engine="event", issue_trace=True).issues
    assert issues is not None
    random = Random(3)
    stops = set(random.sample(sorted(set(issues["pc"].tolist())), 8))
    wanted = [(cycle, hart, pc) for cycle, hart, pc, _ in issues.tolist() if pc in stops]
    session = Session(program, engine=engine)
    session.breakpoints |= stops
    found = []
    while session.end is None:
        if stop := session.go_on(session.cycle + random.choice((5, 200, NEVER))):
            assert (stop.reason, stop.cycle) == ("breakpoint", session.cycle)
            found += [(stop.cycle, h, session.registers(h)["pc"]) for h in stop.harts]
    assert sorted(found) == sorted(wanted)
    assert differing(session.chip, uninterrupted(program, NEVER, engine).chip) == []


def test_breakpoints_can_change_between_stops(program: Program) -> None:
    issues = run_program(program, engine="event", issue_trace=True).issues
    assert issues is not None
    cycle, hart, pc, _ = issues.tolist()[-200]
    session = Session(program)
    session.breakpoints.add(int(issues["pc"][300]))
    session.go_on()
    session.breakpoints.clear()
    session.breakpoints.add(pc)
    while (stop := session.go_on()) and (cycle, hart) not in [(stop.cycle, h) for h in stop.harts]:
        pass
    assert session.cycle == cycle
    session.breakpoints.clear()
    assert session.go_on() is None
    assert session.end == run_program(program).exit


def test_an_instruction_of_a_hart_is_over_in_the_cycle_after_its_issue(program: Program) -> None:
    issues = run_program(program, engine="event", issue_trace=True).issues
    assert issues is not None
    for hart in (2, 8):
        cycles = issues["cycle"][issues["hart"] == hart].tolist()
        session, stops = Session(program), []
        while len(stops) < 400 and session.step_instruction(hart, within=5000):
            stops.append(session.cycle - 1)
        assert stops == cycles[: len(stops)]
        assert len(stops) == min(400, len(cycles))


def test_a_step_gives_up_where_a_hart_sleeps_on() -> None:
    session = Session(assemble("_start:\nwfi\n", ISA, text_base=ENTRY), max_cycles=90_000)
    assert session.step_instruction(8)
    assert not session.step_instruction(8, within=5000)
    assert not session.step_instruction(0)
    assert session.end
    assert session.end.reason == "deadlock"


def test_barriers_stop_when_the_last_core_has_come() -> None:
    """Random programs have a barrier of all cores after each of their rounds, and one before."""
    program = random_program(5, rounds=4)
    issues = run_program(program, engine="event", issue_trace=True).issues
    assert issues is not None
    arrivals = [
        cycle
        for cycle, _, _, word in issues.tolist()
        if disassemble(word, ISA).startswith("p.elw") and "540(" in disassemble(word, ISA)
    ]
    assert len(arrivals) == 5 * 8
    stops = []
    session = Session(program)
    while stop := session.go_on(to_barrier=True):
        assert stop == Stop("barrier", session.cycle)
        stops.append(session.cycle)
    last = [max(arrivals[k : k + 8]) for k in range(0, 40, 8)]
    assert [stop - cycle for stop, cycle in zip(stops, last, strict=True)] == [2] * 5


def test_registers_and_memory_are_those_of_the_cycle() -> None:
    source = """
    _start:
        li sp, 0x1C000100
        li a0, -2
        sw a0, 4(sp)
    end: j end
    """
    program = assemble(source, ISA, text_base=ENTRY)
    session = Session(program, max_cycles=1000)
    session.breakpoints.add(session.address_of("end"))
    stop = session.go_on()
    assert stop
    assert stop.harts == (8,)
    registers = session.registers(8)
    assert registers["pc"] == session.address_of("_start+0x10") == program.symbol("end").address
    assert (registers["sp"], registers["a0"], registers["zero"]) == (0x1C000100, 0xFFFFFFFE, 0)
    session.step()
    assert session.read(0x1C000104, 4) == b"\xfe\xff\xff\xff"
    session.go_to(5)
    assert session.read(0x1C000104, 4) == bytes(4)
    session.go_to(NEVER)
    assert session.end
    assert session.end.message == "cycle limit of 1000 reached"
    assert session.cycle == 1000


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            "nowhere",
            "'nowhere' is no name in the program, nor an address as 0x1c008080",
        ),
        (
            "0xzz",
            "'0xzz' is no name in the program, nor an address as 0x1c008080",
        ),
        (
            "_start+1",
            "'_start+1' is address 0x1c010001; instructions lie at even addresses of L2 "
            "(0x1c000000..0x1c1fffff)",
        ),
        (
            "16",
            "'16' is address 0x00000010; instructions lie at even addresses of L2 "
            "(0x1c000000..0x1c1fffff)",
        ),
    ],
)
def test_a_place_that_is_none_is_named(place: str, message: str) -> None:
    session = Session(assemble("_start:\nnop\nj _start\n", ISA, text_base=ENTRY))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        session.address_of(place)


def test_there_is_no_cycle_before_the_first() -> None:
    session = Session(assemble("_start:\nnop\nj _start\n", ISA, text_base=ENTRY))
    session.step(-5)
    assert session.cycle == 0
    with pytest.raises(ValueError, match=r"^cycle -1: a run begins at cycle 0$"):
        session.go_to(-1)


def test_checkpoints_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from soc.debug import checkpoint_store

    monkeypatch.setattr(checkpoint_store, "MOST", 4)
    program = random_program(3)
    session = eager(Session(program))
    cycles = []
    while session.end is None:
        session.step(40)
        session._history.due = 0
        cycles.append([kept.cycle for kept in session._history.kept])
    assert max(map(len, cycles)) == 4
    assert all(one == sorted(one) for one in cycles)
    session.go_to(1500)
    assert differing(session.chip, uninterrupted(program, 1500).chip) == []


def test_a_run_that_is_interrupted_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(random_program(3))
    session.go_to(200)

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "_simulation", session._simulation)
    monkeypatch.setattr(session._simulation, "run_briefly", interrupted)
    session.go_to(300)
    assert session.end
    assert session.end.message == "interrupted in cycle 200"
    assert session.result().exit == session.end


def test_random_programs_stop_at_every_issue_of_a_breakpoint(
    request: pytest.FixtureRequest,
) -> None:
    for seed in range(100, 160 if request.config.getoption("--full") else 102):
        program, random = random_program(seed), Random(seed)
        issues = run_program(program, issue_trace=True).issues
        assert issues is not None
        stops = set(random.sample(sorted(set(issues["pc"].tolist())), 10))
        session = Session(program)
        session.breakpoints |= stops
        found = []
        while session.end is None:
            stop = session.go_on(session.cycle + random.choice((7, 300, NEVER)))
            found += [(stop.cycle, h) for h in stop.harts] if stop else []
            if random.random() < 0.1:
                here = session.cycle
                session.step(-random.randrange(200))
                session.go_to(here)
        wanted = issues[np.isin(issues["pc"], list(stops))]
        assert sorted(found) == sorted(zip(wanted["cycle"], wanted["hart"], strict=True)), seed

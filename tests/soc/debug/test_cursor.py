"""A debugger's place: every hit in its order, forward and back, and steps to the same cycles."""

from random import Random

import numpy as np
import pytest

from isa.program import Program
from soc.debug.cursor import Cursor, Step
from soc.debug.edits import MemoryEdit, PcEdit, RegisterEdit
from soc.debug.hits import Hit, Phase, Position, Watchpoint
from soc.debug.session import Session
from soc.prelude.trace_event import SIZE_SHIFT, STORE, Kind
from soc.run import ENGINES, prepare, run_program
from soc.trace.reader import Trace
from soc.trace.recorder import Recording
from tests.soc.random_programs import random_program


@pytest.fixture(scope="module", params=[3, 8])
def program(request: pytest.FixtureRequest) -> Program:
    return random_program(request.param)


def recorded(program: Program, folder) -> Trace:
    file = folder / "run.trace"
    run_program(program, trace=Recording(file, filters=("kind=issue,memory",)))
    return Trace.open(file)


def watched_in(trace: Trace, watch: Watchpoint) -> list[Position]:
    """By brute force: the accesses that touch one of the bytes, halves put together."""
    found, first = [], {}
    events = trace.select(Kind.MEMORY)
    for cycle, hart, extra, address in zip(
        *(events[name].tolist() for name in ("cycle", "hart", "extra", "a")), strict=True
    ):
        size = 1 << (extra >> SIZE_SHIFT & 3)
        touched = set(range(address, address + size))
        if extra & 4:
            touched = set(range(address, address + size - first.pop(hart)))
        elif address % 4 + size > 4:
            touched = set(range(address, address // 4 * 4 + 4))
            first[hart] = len(touched)
        is_meant = watch.kind == "access" or (watch.kind == "write") == bool(extra & STORE)
        if is_meant and touched & set(range(watch.address, watch.address + watch.size)):
            found.append(Position(cycle, Phase.ACCESS, hart))
    return found


def forward(cursor: Cursor) -> list[Hit]:
    found = []
    while (moved := cursor.run()).hit:
        found.append(moved.hit)
        is_access = moved.hit.watchpoint is not None
        assert cursor.session.cycle == moved.hit.position.cycle - is_access
    assert moved.reason == "end"
    return found


def backward(cursor: Cursor) -> list[Hit]:
    found = []
    while (moved := cursor.run_back()).hit:
        found.append(moved.hit)
    assert (moved.reason, cursor.session.cycle) == ("start", 0)
    return found


@pytest.mark.parametrize("kind", ["write", "read", "access"])
@pytest.mark.sampled
def test_watchpoints_stop_at_every_access_to_their_bytes(program, kind, tmp_path) -> None:
    trace = recorded(program, tmp_path)
    addresses = sorted(set(trace.select(Kind.MEMORY)["a"].tolist()))
    random, session = Random(1), Session(program)
    for address in random.sample(addresses, 6):
        watch = Watchpoint(address + random.randrange(2), random.choice((1, 2, 4)), kind)
        session.watchpoints = {watch}
        cursor = Cursor(session)
        cursor.go_to(0)
        hits = forward(cursor)
        of_harts = [hit.position for hit in hits if hit.position.phase != Phase.COPY]
        assert of_harts == sorted(watched_in(trace, watch))
        assert {hit.watchpoint for hit in hits} <= {watch}
        assert backward(cursor) == hits[::-1]


def test_hits_are_the_same_forward_and_back(program, tmp_path) -> None:
    trace, random = recorded(program, tmp_path), Random(2)
    pcs = random.sample(sorted(set(trace.select(Kind.ISSUE)["a"].tolist())), 5)
    session = Session(program)
    session.breakpoints |= set(pcs)
    session.watchpoints.add(Watchpoint(int(trace.select(Kind.MEMORY)["a"][50]), 4, "access"))
    cursor = Cursor(session)
    hits = forward(cursor)
    assert len(hits) > 10
    assert backward(cursor) == hits[::-1]
    assert forward(cursor) == hits
    for _ in range(30):
        place = random.randrange(len(hits))
        cursor.settle(hits[place].position)
        cursor.session.go_to(hits[place].position.cycle)
        found = cursor.run_back().hit if random.random() < 0.5 else cursor.run().hit
        near = [hits[k] for k in (place - 1, place + 1) if 0 <= k < len(hits)]
        assert found in [*near, None]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.sampled
def test_steps_of_a_hart_go_from_issue_to_issue_and_back(program, engine) -> None:
    issues = run_program(program, issue_trace=True).issues
    for hart in (1, 8):
        own = issues[issues["hart"] == hart]
        cursor = Cursor(Session(program, engine=engine))
        cursor.go_to(int(own["cycle"][0]))
        cycles = own["cycle"].tolist()[:60]
        assert cursor.pc(hart) == own["pc"][0]
        for cycle, pc in zip(cycles[1:], own["pc"].tolist()[1:60], strict=True):
            assert cursor.run(Step(hart)).hart == hart
            assert (cursor.session.cycle, cursor.pc(hart)) == (cycle, pc)
        for cycle in cycles[-2::-1]:
            cursor.step_back(hart)
            assert cursor.session.cycle == cycle


def test_a_step_through_a_range_ends_where_the_hart_leaves_it(program) -> None:
    issues = run_program(program, issue_trace=True).issues
    own = issues[issues["hart"] == 2]
    cursor = Cursor(Session(program))
    cursor.go_to(int(own["cycle"][10]))
    first, end = int(own["pc"][10]), int(own["pc"][10]) + 12
    cursor.run(Step(2, first, end))
    after = next(k for k in range(11, own.size) if not first <= own["pc"][k] < end)
    assert cursor.session.cycle == own["cycle"][after]


def test_what_others_hit_while_a_hart_steps_alone_is_made_up_for(program) -> None:
    """As GDB goes on from a breakpoint: remove it, step alone, insert it, go on."""
    issues = run_program(program, issue_trace=True).issues
    cores = issues[issues["hart"] < 8]
    pcs, counts = np.unique(cores["pc"], return_counts=True)
    pc = int(pcs[(counts >= 8).argmax()])
    session = Session(program)
    session.breakpoints.add(pc)
    cursor, found = Cursor(session), []
    while (hit := cursor.run().hit) is not None:
        found.append(hit.position)
        session.breakpoints.clear()
        cursor.step_alone(Step(hit.position.hart))
        session.breakpoints.add(pc)
    wanted = [Position(c, Phase.ISSUE, h) for c, h, p, _ in issues.tolist() if p == pc]
    assert found == sorted(wanted)


def test_what_a_hart_has_stepped_past_lies_back(program, tmp_path) -> None:
    """As GDB turns round after a watchpoint: it has stepped past the access, and goes back."""
    trace, session = recorded(program, tmp_path), Session(program)
    addresses, counts = np.unique(trace.select(Kind.MEMORY)["a"], return_counts=True)
    watch = Watchpoint(int(addresses[counts == 3][0]), 1, "access")
    session.watchpoints.add(watch)
    cycles = [position.cycle for position in watched_in(trace, watch)]
    assert len(set(cycles)) == len(cycles)
    cursor = Cursor(session)
    for _ in cycles[1:]:
        hit = cursor.run().hit
        cursor.step_alone(Step(hit.position.hart))
    assert cursor.run_back().hit == hit
    cursor.step_back(hit.position.hart)
    assert cursor.run().hit == hit


def test_an_edit_is_part_of_the_run_from_then_on() -> None:
    program = random_program(3)
    plain, session = Session(program), Session(program)
    session.go_to(900)
    session.edit(RegisterEdit(900, 2, 9, 0x1234))
    session.edit(MemoryEdit(900, 0x10000100, b"abcd"))
    session.go_to(1500)
    then = session.chip.harts.tobytes(), session.chip.l1.tobytes()
    session.go_to(200)
    plain.go_to(200)
    assert session.chip.harts.tobytes() == plain.chip.harts.tobytes()
    session.go_to(900)
    assert session.registers(2)["s1"] == 0x1234
    assert session.read(0x10000100, 4) == b"abcd"
    session.go_to(1500)
    assert (session.chip.harts.tobytes(), session.chip.l1.tobytes()) == then
    session.forget_edits()
    session.go_to(1500)
    plain.go_to(1500)
    assert session.chip.l1.tobytes() == plain.chip.l1.tobytes()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_hart_that_is_sent_elsewhere_goes_on_there_and_its_cycles_add_up(engine) -> None:
    from isa.assembler.asm import assemble
    from tests.soc.random_programs import ENTRY, ISA

    source = "_start: li a0, 1\nloop: j loop\nthere: li a0, 7\nli a1, 8\nend: j end\n"
    program = assemble(source, ISA, text_base=ENTRY)
    session = Session(program, engine=engine, max_cycles=400)
    session.go_to(100)
    session.edit(PcEdit(100, 8, session.address_of("there")))
    session.go_to(200)
    assert (session.registers(8)["a0"], session.registers(8)["a1"]) == (7, 8)
    session.go_to(400)
    hart = session.result().to_json()["harts"][8]
    assert hart["cycles"] == 400


def test_a_session_does_not_change_the_run(program) -> None:
    session, random = Session(program), Random(5)
    cursor = Cursor(session)
    end = prepare(program, "pulp", "compiled").run().message
    for _ in range(12):
        cursor.go_to(random.randrange(1500))
        [cursor.view.register(h, 10) for h in range(9)]
        cursor.view.read(0x10000000, 64)
        cursor.run(Step(random.randrange(9)))
    session.go_to(1 << 40)
    assert session.end
    assert session.end.message == end
    assert session.result().to_json()["harts"] == run_program(program).to_json()["harts"]

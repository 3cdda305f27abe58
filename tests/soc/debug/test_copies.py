"""Watchpoints see what the DMA reads and writes: byte for byte, in its cycle, of both memories."""

from random import Random

import numpy as np
import pytest

from firmware.drivers import Dma
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.chip.spec import load_chip
from soc.debug.cursor import Cursor, Step
from soc.debug.hits import Hit, Phase, Watchpoint
from soc.debug.session import Session
from soc.run import ENGINES

SIZE = 96
PULP = load_chip("pulp")


@pytest.fixture(scope="module")
def program() -> Program:
    """Core 2 copies bytes to L1, core 5 others to L2, neither from word to word; core 0 loads."""
    k = new_kernel(PULP, "copies")
    dma, data = Dma(k), np.array(Random(1).choices(range(1, 256), k=2 * SIZE), np.uint8)
    source = k.data("source", data.tobytes(), 16)
    near, full = k.buffer(k.l1, "near", SIZE), k.buffer(k.l1, "full", SIZE)
    far = k.buffer(k.l2, "far", SIZE)

    def copy(start, l1: int, l2: int, size: int) -> None:
        with k.scope():
            counter = k.x()
            dma.begin(counter)
            start(l1, l2, size)
            dma.wait(counter)

    with team_of(k, PULP, PULP.cores) as team:
        with team.only(5):
            copy(dma.to_l1, full, source + SIZE, SIZE)
        team.barrier()
        with team.only(2):
            copy(dma.to_l1, near + 3, source + 5, 61)
        with team.only(5):
            copy(dma.to_l2, full + 1, far + 6, 54)
        with team.only(0), k.scope():
            place, value = k.x(2)
            k.li(place, near)
            for at in range(0, SIZE, 4):
                k.lw(value, at, place)
    return k.build()


def buffer(program: Program, name: str) -> int:
    return program.symbol(name).address


def hits(session: Session, *watchpoints: Watchpoint) -> list[Hit]:
    """All of the DMA, forward; those on the way back are the same."""
    session.watchpoints = set(watchpoints)
    cursor, found, back = Cursor(session), [], []
    cursor.go_to(0)
    while hit := cursor.run().hit:
        found.append(hit)
        assert session.cycle == hit.position.cycle - (hit.watchpoint is not None)
    while hit := cursor.run_back().hit:
        back.append(hit)
    assert back[::-1] == found
    return [hit for hit in found if hit.position.phase == Phase.COPY]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "core", "first", "end"), [("near", 2, 3, 64), ("far", 5, 6, 60)])
@pytest.mark.sampled
def test_a_write_is_seen_in_the_cycle_in_which_the_byte_changes(
    program, engine, name, core, first, end
) -> None:
    base, session = buffer(program, name), Session(program, engine=engine)
    session.go_to(1 << 40)
    changes, last = {}, session.cycle
    session.go_to(0)
    before = session.read(base, SIZE)
    for cycle in range(1, last):
        session.go_to(cycle)
        now = session.read(base, SIZE)
        changes |= {k: cycle - 1 for k in range(SIZE) if now[k] != before[k]}
        before = now
    assert sorted(changes) == list(range(first, end))
    for k in (0, first - 1, first, first + 1, first + 30, end - 1, end):
        found = hits(session, Watchpoint(base + k, 1))
        wanted = [(changes[k], core, base + k)] if k in changes else []
        assert [(h.position.cycle, h.position.hart, h.address) for h in found] == wanted
        assert all(hit.is_store for hit in found)


def test_words_that_a_copy_reads_are_seen_for_who_has_asked_for_it(program) -> None:
    session = Session(program)
    for name, core, first, last in (("full", 5, 0, 52), ("source", 2, 4, 64)):
        base = buffer(program, name)
        watched = [Watchpoint(base + at, 4, "read") for at in (first, last)]
        for watch in watched:
            [hit] = hits(session, watch)
            assert (hit.position.hart, hit.address, hit.is_store) == (core, watch.address, False)
        assert len(hits(session, *watched)) == 2


def test_a_step_from_a_write_goes_past_it_and_back_before_it(program) -> None:
    base, session = buffer(program, "near"), Session(program)
    session.watchpoints = {Watchpoint(base + 20, 4), Watchpoint(base + 24, 4)}
    cursor, found = Cursor(session), []
    while hit := cursor.run().hit:
        old = cursor.view.read(hit.address, 4)
        assert cursor.step_alone(Step(hit.position.hart)).hit == hit
        assert (old, session.cycle) == (bytes(4), hit.position.cycle)
        found.append((hit, cursor.view.read(hit.address, 4)))
    assert len(found) == 2
    for hit, new in found[::-1]:
        assert cursor.run_back().hit == hit
        assert cursor.view.read(hit.address, 4) == new
        cursor.step_back(hit.position.hart)
        assert cursor.view.read(hit.address, 4) == bytes(4)

"""Programs with a fault, and the same programs without: what the checks are held against.

Every scenario emits both: `is_faulty` leaves out, or moves, what keeps the program right. A variant
changes memory, cores and the time between the accesses, which must not matter.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from firmware.builder import NE, Register
from firmware.drivers import Dma
from firmware.fork import crew_of, offload_of
from firmware.platform import EVENT_UNIT, SOFTWARE_EVENT, WAITED_FOR, in_event_unit
from firmware.registers import SP, ZERO
from firmware.runtime import new_kernel, team_of
from firmware.team import WAIT, Team
from isa.program import Program
from soc.address_map.memory_map import L2_BASE
from soc.chip.spec import load_chip

PULP = load_chip("pulp", {"event_unit.mutexes": 4})
TEST_AND_SET = 0x100000  # bytes from a word of L1 to its alias
VARIANTS = range(4)


@dataclass(frozen=True)
class Variant:
    """One of a scenario's programs.

    one, other    cores that meet
    late          rounds that the second one waits before it acts
    """

    in_l1: bool
    one: int
    other: int
    late: int


OF_NUMBER = (
    Variant(True, 0, 1, 0),
    Variant(False, 2, 5, 0),
    Variant(True, 7, 3, 60),
    Variant(False, 1, 6, 200),
)


class Bench:
    """A program under construction, with the few steps that scenarios consist of."""

    def __init__(self, name: str, variant: Variant) -> None:
        self.k, self.variant = new_kernel(PULP, name), variant
        self.dma = Dma(self.k)

    def buffer(self, name: str, size: int = 4, in_l1: bool | None = None) -> int:
        arena = self.k.l1 if (self.variant.in_l1 if in_l1 is None else in_l1) else self.k.l2
        return self.k.buffer(arena, name, size)

    def store(self, address: int, value: int = 1, form: str = "sw") -> None:
        k = self.k
        with k.scope():
            place, number = k.x(2)
            k.li(place, address)
            k.li(number, value)
            getattr(k, form)(number, 0, place)

    def load(self, address: int, form: str = "lw") -> None:
        k = self.k
        with k.scope():
            place, number = k.x(2)
            k.li(place, address)
            getattr(k, form)(number, 0, place)

    def add(self, address: int) -> None:
        k = self.k
        with k.scope():
            place, number = k.x(2)
            k.li(place, address)
            k.lw(number, 0, place)
            k.addi(number, number, 1)
            k.sw(number, 0, place)

    def wait(self, rounds: int) -> None:
        k = self.k
        if rounds:
            with k.scope():
                left = k.x()
                k.li(left, rounds)
                again = k.here()
                k.addi(left, left, -1)
                k.bne(left, ZERO, again)

    @contextmanager
    def team(self) -> Iterator[Team]:
        with team_of(self.k, PULP, 8) as team:
            yield team

    def clear(self, team: Team, *addresses: int) -> None:
        """Let core 0 write words before anybody else comes to them."""
        with team.only(0):
            for address in addresses:
                self.store(address, 0)
        team.barrier()

    def signal(self, core: int) -> None:
        self.store(EVENT_UNIT + in_event_unit("SW_EVENT"), 1 << core)

    def await_signal(self) -> None:
        k = self.k
        with k.scope():
            unit, value = k.x(2)
            k.li(unit, EVENT_UNIT)
            k.li(value, SOFTWARE_EVENT)
            k.sw(value, in_event_unit("MASK"), unit)
            k.by_field(WAIT, rd=value, imm=in_event_unit("WAIT_CLEAR"), rs1=unit)
            k.li(value, WAITED_FOR)
            k.sw(value, in_event_unit("MASK"), unit)


Scenario = Callable[[Bench, Variant, bool], None]


def counter_without_a_lock(b: Bench, v: Variant, is_faulty: bool) -> None:
    """Two cores add to a word."""
    word = b.buffer("word")
    with b.team() as team:
        b.clear(team, word)
        for core in (v.one, v.other):
            with team.only(core):
                b.wait(v.late if core == v.other else 0)
                if is_faulty:
                    b.add(word)
                else:
                    with team.critical():
                        b.add(word)


def counter_with_two_locks(b: Bench, v: Variant, is_faulty: bool) -> None:
    """Two cores add to a word, each under a mutex: the same one, or not."""
    word = b.buffer("word")
    with b.team() as team:
        b.clear(team, word)
        for mutex, core in enumerate((v.one, v.other)):
            with team.only(core):
                b.wait(v.late * mutex)
                with team.critical(mutex if is_faulty else 3):
                    b.add(word)


def neighbour_without_a_barrier(b: Bench, v: Variant, is_faulty: bool) -> None:
    """A core reads what another one has written, before or after the barrier."""
    word = b.buffer("word")
    with b.team() as team:
        with team.only(v.one):
            b.store(word)
        if not is_faulty:
            team.barrier()
        with team.only(v.other):
            b.wait(v.late + 40)
            b.load(word)


def bytes_of_a_word(b: Bench, v: Variant, is_faulty: bool) -> None:
    """Two cores write bytes of one word: neighbours, or the same."""
    word = b.buffer("word")
    with b.team() as team:
        b.clear(team, word)
        with team.only(v.one):
            b.store(word + 1, form="sb")
        with team.only(v.other):
            b.wait(v.late)
            b.store(word + (1 if is_faulty else 2), form="sb")


def reader_after_the_fork(b: Bench, v: Variant, is_faulty: bool) -> None:
    """Core 0 writes what a forked function reads, before or after it has forked."""
    word, k = b.buffer("word"), b.k
    worker = max(v.one, v.other)
    with crew_of(k, PULP) as crew:
        team = crew.team()
        with k.function("work") as work:
            with team.only(worker):
                b.wait(v.late + 20)
                b.load(word)
            if is_faulty:
                with team.only(0):
                    b.store(word, 2)
        b.store(word)
        crew.fork(work)


def writer_after_the_join(b: Bench, v: Variant, is_faulty: bool) -> None:
    """A worker writes what core 0 reads after the join; too late, if it is faulty."""
    word, done, k = b.buffer("word"), b.buffer("done"), b.k
    worker = max(v.one, v.other)
    with b.team() as team:
        b.clear(team, word, done)
        with team.only(worker):
            if not is_faulty:
                b.store(word)
        team.barrier()
        with team.only(worker):
            if is_faulty:
                b.store(word)
        with team.only(0):
            b.wait(v.late + 30)
            b.load(word)
    assert k.l1


def reader_before_the_copy_ends(b: Bench, v: Variant, is_faulty: bool) -> None:
    """A core reads what its copy brings, before or after it has waited."""
    source, target = b.k.data("source", bytes(range(64))), b.buffer("target", 64, True)
    k = b.k
    with b.team() as team, team.only(v.one), k.scope():
        counter = k.x()
        b.dma.begin(counter)
        b.dma.to_l1(target, source, 64)
        if is_faulty:
            b.wait(v.late)
            b.load(target + 4)
        b.dma.wait(counter)
        b.load(target + 8)


def writer_before_the_copy_ends(b: Bench, v: Variant, is_faulty: bool) -> None:
    """A core writes what its copy takes away, before or after it has waited."""
    k = b.k
    source, target = b.buffer("source", 64, True), b.buffer("target", 64, False)
    with b.team() as team, team.only(v.one), k.scope():
        counter = k.x()
        for word in range(16):
            b.store(source + 4 * word, word)
        b.dma.begin(counter)
        b.dma.to_l2(source, target, 64)
        if is_faulty:
            b.wait(v.late)
            b.store(source + 60)
        b.dma.wait(counter)
        b.store(source)


def copy_of_another_core(b: Bench, v: Variant, is_faulty: bool) -> None:
    """A core reads what another one's copy has brought, with or without a barrier between."""
    source, target = b.k.data("source", bytes(64)), b.buffer("target", 64, True)
    k = b.k
    with b.team() as team:
        with team.only(v.one), k.scope():
            counter = k.x()
            b.dma.begin(counter)
            b.dma.to_l1(target, source, 64, l1_line=16, l1_stride=16)
            b.dma.wait(counter)
        if not is_faulty:
            team.barrier()
        with team.only(v.other):
            b.wait(v.late + 300)
            b.load(target + 32)


def lock_without_test_and_set(b: Bench, v: Variant, is_faulty: bool) -> None:
    """Two cores add to a word under a lock in L1, which a plain load cannot take."""
    word, lock, k = b.buffer("word"), b.buffer("lock", in_l1=True), b.k
    with b.team() as team:
        b.clear(team, word, lock)
        for core in (v.one, v.other):
            with team.only(core), k.scope():
                b.wait(v.late if core == v.other else 0)
                place, value = k.x(2)
                k.li(place, lock + (0 if is_faulty else TEST_AND_SET))
                again = k.here()
                k.lw(value, 0, place)
                k.bne(value, ZERO, again)
                if is_faulty:
                    b.store(lock, -1)
                b.add(word)
                b.store(lock, 0)


def flag_and_data(b: Bench, v: Variant, is_faulty: bool) -> None:
    """A core polls a word that is declared for it, and reads what came before, or after it."""
    flag, word, k = b.buffer("sync_flag"), b.buffer("word"), b.k
    with b.team() as team:
        b.clear(team, flag, word)
        with team.only(v.one):
            if not is_faulty:
                b.store(word)
            b.wait(v.late)
            b.store(flag)
            if is_faulty:
                b.store(word)
        with team.only(v.other), k.scope():
            place, value = k.x(2)
            k.li(place, flag)
            again = k.here()
            k.lw(value, 0, place)
            k.beqz(value, again)
            b.load(word)


def event_of_another_core(b: Bench, v: Variant, is_faulty: bool) -> None:
    """A core waits for a software event, and reads what was written before it, or after it."""
    word = b.buffer("word")
    with b.team() as team:
        with team.only(v.one):
            if not is_faulty:
                b.store(word)
            b.wait(v.late)
            b.signal(v.other)
            if is_faulty:
                b.store(word)
        with team.only(v.other):
            b.await_signal()
            b.wait(30)
            b.load(word)


def mailbox_of_the_controller(b: Bench, v: Variant, is_faulty: bool) -> None:
    """The fabric controller reads what the cluster has written: after its end, or a late one."""
    word, k = b.buffer("word"), b.k
    with offload_of(k, PULP) as cluster:
        team = cluster.team()
        with k.function("write_late") as late, team.only(v.other):
            b.wait(v.late)
            b.store(word)
        with k.function("work") as work:
            cluster.fork(late)
            if is_faulty:
                b.store(EVENT_UNIT + in_event_unit("DISPATCH_TEAM"), 1 << v.other)
                with k.scope():
                    place, value = k.x(2)
                    k.li(place, EVENT_UNIT)
                    k.la(value, late)
                    for _ in range(2):
                        k.sw(value, in_event_unit("DISPATCH"), place)
        cluster.run(work)
        b.load(word)
        b.wait(200)


RACES: tuple[Scenario, ...] = (
    counter_without_a_lock,
    counter_with_two_locks,
    neighbour_without_a_barrier,
    bytes_of_a_word,
    reader_after_the_fork,
    writer_after_the_join,
    reader_before_the_copy_ends,
    writer_before_the_copy_ends,
    copy_of_another_core,
    lock_without_test_and_set,
    flag_and_data,
    event_of_another_core,
    mailbox_of_the_controller,
)


def _for_each(b: Bench, v: Variant, size: int) -> int:
    """A buffer of which core `one` has written all words."""
    buffer = b.buffer("buffer", size)
    for word in range(size // 4):
        b.store(buffer + 4 * word, word)
    return buffer


def unwritten_word(b: Bench, v: Variant, is_faulty: bool) -> None:
    """unwritten: a word is read before, or after it is written."""
    word = b.buffer("word")
    with b.team() as team, team.only(v.one):
        if not is_faulty:
            b.store(word)
        b.load(word)
        b.store(word)


def unwritten_byte(b: Bench, v: Variant, is_faulty: bool) -> None:
    """unwritten: of a word that is read, all bytes are written, or all but one."""
    word = b.buffer("word", 8)
    with b.team() as team, team.only(v.one):
        for byte in range(3 if is_faulty else 4):
            b.store(word + 1 + byte, byte, "sb")
        b.load(word + 1)  # across two words


def unwritten_stack(b: Bench, v: Variant, is_faulty: bool) -> None:
    """unwritten: a frame is read that nothing was stored to."""
    k = b.k
    with b.team() as team, team.only(v.one), k.scope():
        value = k.x()
        k.addi(SP, SP, -64)
        if not is_faulty:
            k.sw(ZERO, 16, SP)
        k.lw(value, 16, SP)
        k.addi(SP, SP, 64)


def unwritten_copied(b: Bench, v: Variant, is_faulty: bool) -> None:
    """unwritten: the copy of a buffer is read of which not all was written."""
    k = b.k
    source, target = b.buffer("source", 32, True), b.buffer("target", 32, False)
    with b.team() as team, team.only(v.one), k.scope():
        counter = k.x()
        for word in range(7 if is_faulty else 8):
            b.store(source + 4 * word, word)
        b.dma.begin(counter)
        b.dma.to_l2(source, target, 32)
        b.dma.wait(counter)
        b.load(target + 28)


def past_the_end(b: Bench, v: Variant, is_faulty: bool) -> None:
    """outside: the word after a buffer is written, or its last one."""
    with b.team() as team, team.only(v.one):
        buffer = _for_each(b, v, 20)
        b.store(buffer + (20 if is_faulty else 16))


def before_the_start(b: Bench, v: Variant, is_faulty: bool) -> None:
    """outside: a byte before a buffer is read, or its first one."""
    b.buffer("gap", 4)
    with b.team() as team, team.only(v.one):
        buffer = _for_each(b, v, 8)
        b.load(buffer - is_faulty, "lbu")


def memory_of_nobody(b: Bench, v: Variant, is_faulty: bool) -> None:
    """outside: the far end of the memory is read."""
    buffer = b.buffer("buffer", 16)
    far = b.k.l1.base + 0xC000 if v.in_l1 else L2_BASE + 0x100000
    with b.team() as team, team.only(v.one):
        b.store(buffer)
        b.load(far + 64 * v.one if is_faulty else buffer)


def copy_past_the_end(b: Bench, v: Variant, is_faulty: bool) -> None:
    """outside: a copy is longer than its target."""
    k = b.k
    source, target = k.data("source", bytes(96)), b.buffer("target", 64, True)
    with b.team() as team, team.only(v.one), k.scope():
        counter = k.x()
        b.dma.begin(counter)
        b.dma.to_l1(target, source, 68 if is_faulty else 64)
        b.dma.wait(counter)


def code_overwritten(b: Bench, v: Variant, is_faulty: bool) -> None:
    """constant: the program's code is written to, or its data are."""
    k = b.k
    word = k.data("word", bytes(4))
    with b.team() as team, team.only(v.one), k.scope():
        place = k.x()
        if is_faulty:
            here = k.here("patched")
            k.la(place, here)
        else:
            k.li(place, word)
        with k.scope():
            value = k.x()
            k.li(value, 0x13)
            k.sw(value, 0, place)


def copy_in_flight_read(b: Bench, v: Variant, is_faulty: bool) -> None:
    """in_flight: what a copy brings is read before its end is seen."""
    reader_before_the_copy_ends(b, v, is_faulty)


def copy_in_flight_written(b: Bench, v: Variant, is_faulty: bool) -> None:
    """in_flight: what a copy takes away is written before its end is seen."""
    writer_before_the_copy_ends(b, v, is_faulty)


def counter_kept(b: Bench, v: Variant, is_faulty: bool) -> None:
    """leak: a counter of the DMA is never freed."""
    k = b.k
    source, target = k.data("source", bytes(64)), b.buffer("target", 64, True)
    with b.team() as team, team.only(v.one), k.scope():
        counter = k.x()
        b.dma.begin(counter)
        b.dma.to_l1(target, source, 64)
        (b.dma.wait_open if is_faulty else b.dma.wait)(counter)


MEMORY: tuple[Scenario, ...] = (
    unwritten_word,
    unwritten_byte,
    unwritten_stack,
    unwritten_copied,
    past_the_end,
    before_the_start,
    memory_of_nobody,
    copy_past_the_end,
    code_overwritten,
    copy_in_flight_read,
    copy_in_flight_written,
    counter_kept,
)


def seeded(scenario: Scenario, number: int, is_faulty: bool) -> Program:
    """The program of a scenario in one of its variants."""
    variant = OF_NUMBER[number]
    bench = Bench(scenario.__name__, variant)
    scenario(bench, variant, is_faulty)
    return bench.k.build()


__all__ = ["MEMORY", "NE", "RACES", "VARIANTS", "Register", "seeded"]

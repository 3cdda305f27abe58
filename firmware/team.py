"""A team: cores that all execute the code that is emitted, share its work and meet."""

from collections.abc import Iterator
from contextlib import contextmanager

from firmware.builder import EQ, LT, Kernel, KernelError, Label, Register
from firmware.platform import CORE_NUMBER, EVENT_UNIT, in_event_unit
from firmware.registers import ZERO
from isa.assembler.names import CSRS
from soc.address_map.registers import MUTEXES

WAIT = ("p_elw", "cv_elw")


class Team:
    """Cluster cores 0 .. cores-1, which all execute the code that is emitted.

    with team.cyclic(n) as i:       n rounds of work, each by one core
        ...
    with team.critical():           one core at a time
        ...
    team.barrier()

    fetcher    the function that fetches code, see firmware.fetch_ahead; None: each has its own
    """

    def __init__(self, k: Kernel, cores: int) -> None:
        self.k, self.cores = k, cores
        self.fetcher: Label | None = None

    def core(self, rd: Register) -> None:
        """Load the number of the core: rd = 0 .. cores-1."""
        self.k.csrr(rd, CSRS["mhartid"])
        self.k.andi(rd, rd, CORE_NUMBER)

    @contextmanager
    def only(self, number: int = 0) -> Iterator[None]:
        """Let one core run the body."""
        k = self.k
        with k.scope():
            core, wanted = k.x(2) if number else (k.x(), ZERO)
            self.core(core)
            if number:
                k.li(wanted, number)
        with k.if_(EQ, core, wanted):
            yield

    def barrier(self) -> None:
        """Wait for all cores: barrier 0 of the event unit."""
        k = self.k
        with k.scope():
            t = k.x()
            k.li(t, EVENT_UNIT)
            k.by_field(WAIT, rd=t, imm=in_event_unit("BARRIER_TRIGGER_WAIT_CLEAR"), rs1=t)

    @contextmanager
    def critical(self, mutex: int = 0) -> Iterator[None]:
        """Let one core at a time run the body: a mutex of the event unit.

        PULP has one, 0; the chip's field event_unit.mutexes lets it have others.

        raises    KernelError if no event unit has such a mutex
        """
        if not 0 <= mutex < MUTEXES:
            raise KernelError(f"critical: mutex {mutex}; there are 0 to {MUTEXES - 1}")
        k = self.k
        with k.scope():
            t = k.x()
            k.li(t, EVENT_UNIT)
            k.by_field(WAIT, rd=t, imm=in_event_unit("MUTEX", mutex), rs1=t)
        yield
        with k.scope():
            t = k.x()
            k.li(t, EVENT_UNIT)
            k.sw(ZERO, in_event_unit("MUTEX", mutex), t)

    @contextmanager
    def cyclic(self, count: int | Register) -> Iterator[Register]:
        """Distribute count rounds cyclically: core c runs the body with c, c + cores, ...

        `as` the register that holds the round; the body must not change it.
        """
        k = self.k
        with k.scope():
            index, left = k.x(2)
            self.core(index)
            k.set(left, count)
            k.sub(left, left, index)
            with self._rounds(left, self.cores):
                yield index
                k.addi(index, index, self.cores)

    @contextmanager
    def static(self, count: int | Register) -> Iterator[Register]:
        """Distribute count rounds in runs of equal length, the last ones shorter.

        `as` the register that holds the round; the body must not change it.
        """
        k = self.k
        with k.scope():
            index, left = self.run(count)
            with self._rounds(left, 1):
                yield index
                k.addi(index, index, 1)

    def run(self, count: int | Register) -> tuple[Register, Register]:
        """Take two registers: the first of the core's run of rounds, and how many it has, if > 0.

        Core c has ceil(count / cores) rounds from c times that, or what is left of them.
        """
        k = self.k
        first, size = k.x(2)
        with k.scope():
            run = k.x()
            if isinstance(count, int):
                k.li(run, -(-count // self.cores))
            else:
                k.li(size, self.cores)
                k.addi(run, count, self.cores - 1)
                k.divu(run, run, size)
            self.core(first)
            k.mul(first, first, run)
            k.set(size, count)
            k.sub(size, size, first)
            with k.if_(LT, run, size):
                k.mv(size, run)
        return first, size

    @contextmanager
    def _rounds(self, left: Register, step: int) -> Iterator[None]:
        k = self.k
        with k.if_(LT, ZERO, left), k.loop(left, step=step):
            yield


class Group(Team):
    """Neighbouring cores of a team, which share a part of its work.

    Its barrier is the whole team's, so all groups have to meet equally often. Core 0 means the
    first core of each group: `only(0)` runs once a group.
    """

    def __init__(self, team: Team, cores: int) -> None:
        """Split the team into groups of so many cores: a power of two that divides the team's.

        raises    KernelError for other numbers
        """
        super().__init__(team.k, cores)
        if cores < 1 or cores & (cores - 1) or team.cores % cores:
            raise KernelError(
                f"group: {cores} of {team.cores} cores; it is a power of two that divides them"
            )

    def core(self, rd: Register) -> None:
        """Load the number of the core in its group: rd = 0 .. cores-1."""
        super().core(rd)
        self.k.andi(rd, rd, self.cores - 1)

    def number(self, rd: Register) -> None:
        """Load the number of the core's group."""
        super().core(rd)
        self.k.srli(rd, rd, self.cores.bit_length() - 1)

"""Fork and join: functions that one hart lets others run.

A worker, any core but the first, waits for the event unit's dispatch FIFO to name a function and
its argument, runs it, meets the others at the barrier, and waits again. The first core of an
offloading program does so too, at a software event from the fabric controller, which names them in
a mailbox in L2 and sleeps until an event tells it that the work is done. Its name tells checks that
harts synchronise by it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from firmware.builder import EQ, Kernel, KernelError, Label, Register
from firmware.platform import (
    EVENT_UNIT,
    SOFTWARE_EVENT,
    WAITED_FOR,
    address_of,
    in_event_unit,
)
from firmware.registers import RA, ZERO, A
from firmware.runtime import begin_cluster, begin_controller, exit_, set_team, sleep
from firmware.stacks import check_stack
from firmware.team import WAIT, Team
from soc.chip.spec import SocSpec

FUNCTION, ARGUMENT, DONE, MAILBOX = 0, 4, 8, 12  # bytes; the last one is the mailbox's size
CONTROLLER_EVENT = 1  # of the fabric controller: software event 0


class Crew:
    """Cores that wait for work, and what core 0 does to give it to them."""

    def __init__(self, k: Kernel, cores: int) -> None:
        self.k, self.cores = k, cores

    def team(self, cores: int | None = None) -> Team:
        """The cores 0 .. cores-1, to share work in a function that they will run; None: all.

        raises    KernelError if there are not as many
        """
        return Team(self.k, self._checked(cores))

    def fork(self, function: Label, argument: Register | int = 0, cores: int | None = None) -> None:
        """Let cores 0 .. cores-1 run function(argument), and wait for them; None: all.

        A call: core 0, which emits it, runs the function too. Its barriers are those of this team.

        raises    KernelError if there are not as many, or as calls do
        """
        cores, k = self._checked(cores), self.k
        set_team(k, cores)
        if cores > 1:
            self._dispatch(function, argument, cores)
        k.call(function, argument)
        Team(k, cores).barrier()

    def _dispatch(self, function: Label, argument: Register | int, cores: int) -> None:
        """Give all cores but core 0 the function to run."""
        k = self.k
        with k.scope():
            team, value = k.x(2)
            k.li(team, EVENT_UNIT)
            k.li(value, (1 << cores) - 2)
            k.sw(value, in_event_unit("DISPATCH_TEAM"), team)
            k.la(value, function)
            k.sw(value, in_event_unit("DISPATCH"), team)
            if isinstance(argument, int):
                k.li(value, argument)
            k.sw(value if isinstance(argument, int) else argument, in_event_unit("DISPATCH"), team)

    def _checked(self, cores: int | None) -> int:
        if cores is None:
            return self.cores
        if not 1 <= cores <= self.cores:
            raise KernelError(f"fork: {cores} cores; the crew has 1 to {self.cores}")
        return cores


@contextmanager
def crew_of(k: Kernel, chip: SocSpec, cores: int | None = None) -> Iterator[Crew]:
    """The whole program around a body that core 0 executes, from boot to exit with code 0.

    raises    KernelError if the chip does not have as many cores; None: all
    """
    cores = chip.cores if cores is None else cores
    start = k.label("cluster_start")
    begin_controller(k, chip, cores, start)
    sleep(k)
    _begin_crew(k, chip, cores, start)
    yield Crew(k, cores)
    check_stack(k, ZERO)
    exit_(k, 0)
    sleep(k)


class Offload(Crew):
    """The fabric controller's part of a fork: it lets the cluster work and waits for its end."""

    def __init__(self, k: Kernel, cores: int, mailbox: int) -> None:
        super().__init__(k, cores)
        self.mailbox = mailbox

    def run(self, function: Label, argument: Register | int = 0) -> None:
        """Let core 0 of the cluster run function(argument), and sleep until it has.

        The function may fork.
        """
        k = self.k
        with k.scope():
            box, value, t = k.x(3)
            k.li(box, self.mailbox)
            k.sw(ZERO, DONE, box)
            k.la(value, function)
            k.sw(value, FUNCTION, box)
            if isinstance(argument, int):
                k.li(value, argument)
            k.sw(value if isinstance(argument, int) else argument, ARGUMENT, box)
            k.li(t, address_of("event_unit_shared", "SW_EVENT"))
            k.li(value, 1)
            k.sw(value, 0, t)
            again, done = k.here(), k.label()
            k.lw(value, DONE, box)
            k.bnez(value, done)
            k.wfi()
            k.j(again)
            k.place(done)
            k.li(t, address_of("interrupt_controller", "STATUS_CLEAR"))
            k.li(value, CONTROLLER_EVENT)
            k.sw(value, 0, t)


@contextmanager
def offload_of(k: Kernel, chip: SocSpec, cores: int | None = None) -> Iterator[Offload]:
    """The whole program around a body that the fabric controller executes, from boot to exit.

    raises    KernelError if the chip does not have as many cores; None: all
    """
    cores = chip.cores if cores is None else cores
    mailbox = k.buffer(k.l2, "sync_mailbox", MAILBOX)
    start = k.label("cluster_start")
    begin_controller(k, chip, cores, start)
    with k.scope():
        value, t = k.x(2)
        k.li(t, address_of("interrupt_controller", "MASK_SET"))
        k.li(value, CONTROLLER_EVENT)
        k.sw(value, 0, t)
    yield Offload(k, cores, mailbox)
    exit_(k, 0)
    sleep(k)
    _begin_crew(k, chip, cores, start)
    _serve_controller(k, mailbox)


def _begin_crew(k: Kernel, chip: SocSpec, cores: int, start: Label) -> None:
    """Emit the start of all cores: core 0 goes on, others wait for work for ever."""
    team = begin_cluster(k, chip, cores, start)
    team.barrier()  # all have set the team that the barrier is for: core 0 may set another
    master = k.label()
    with k.scope():
        core, unit, function = k.saved(3)
        team.core(core)
        with k.if_(EQ, core, ZERO):
            k.j(master)
        k.li(unit, EVENT_UNIT)
        again = k.here()
        k.by_field(WAIT, rd=function, imm=in_event_unit("DISPATCH"), rs1=unit)
        k.by_field(WAIT, rd=A[0], imm=in_event_unit("DISPATCH"), rs1=unit)
        k.jalr(RA, 0, function)
        check_stack(k, core)
        team.barrier()
        k.j(again)
    k.place(master)


def _serve_controller(k: Kernel, mailbox: int) -> None:
    """Emit core 0's loop: wait for the controller, run the function it names, report the end."""
    with k.scope():
        box, unit, value = k.saved(3)
        k.li(box, mailbox)
        k.li(unit, EVENT_UNIT)
        again = k.here()
        k.li(value, SOFTWARE_EVENT)
        k.sw(value, in_event_unit("MASK"), unit)
        k.by_field(WAIT, rd=value, imm=in_event_unit("WAIT_CLEAR"), rs1=unit)
        k.li(value, WAITED_FOR)
        k.sw(value, in_event_unit("MASK"), unit)
        k.lw(value, FUNCTION, box)
        k.lw(A[0], ARGUMENT, box)
        k.jalr(RA, 0, value)
        check_stack(k, ZERO)
        k.li(value, 1)
        k.sw(value, DONE, box)
        k.lw(ZERO, DONE, box)  # it is there before the event is
        k.li(A[0], address_of("interrupt_controller", "STATUS_SET"))
        k.li(value, CONTROLLER_EVENT)
        k.sw(value, 0, A[0])
        k.j(again)

"""Boot of the platform and whole programs: who runs which code, and how a run ends.

    team_of       all cores execute the body
    crew_of       core 0 executes the body, and lets others help: fork and join
    offload_of    the fabric controller executes the body, and lets the cluster work

    fabric controller    instruction caches on, boot addresses, fetch enable; then its body
    core i               its stack, its events; then its body, or it waits for work

Every address is the platform's: the programs also run on other simulators of PULP, as those of
PULP's own runtime do (crt0: entry in L2, 1 kB of stack for each core from the top of L1 down).

Calling convention: the psABI's integer registers, see firmware.registers. A function that others
run has one argument, in a0; it returns to who called it, and all cores of its team return.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from firmware.arena import Arena
from firmware.builder import Kernel, KernelError, Label
from firmware.platform import EVENT_UNIT, WAITED_FOR, address_of, in_event_unit
from firmware.registers import SP
from firmware.stacks import (
    CONTROLLER,
    STACK,
    STACKS,
    begin_stack,
    check_stack,
    declare_stacks,
    exit_,
)
from firmware.team import Team
from isa.assembler.names import CSRS
from soc.chip.spec import SocSpec
from soc.core.csr_numbers import MSTATUS_FS

__all__ = ["EVENT_UNIT", "STACK", "Team", "address_of", "exit_", "new_kernel", "team_of"]

CODE_OFFSET = 0x10080  # in L2: after the private banks and the vectors
DATA_OFFSET = 0x20000
CODE = DATA_OFFSET - CODE_OFFSET  # bytes of code that there is room for if nothing else is said
ALIGNED = 256  # bytes, what data begin at: a burst of the DMA


def new_kernel(
    chip: SocSpec, name: str = "program", guard: int = 0, code: int = CODE, stack: int = STACK
) -> Kernel:
    """An empty program for a chip. Floats live in x registers unless the chip says otherwise.

    guard     bytes that stay free around every buffer
    code      bytes of L2 for code; data lie after it
    stack     bytes of each core's, one of STACKS

    raises    KernelError for another stack, if the chip is a test bench, or its memories are too
              small
    """
    if stack not in STACKS:
        raise KernelError(
            f"{name}: stack {stack}; it is one of {', '.join(map(str, STACKS))} bytes"
        )
    if chip.control_page:
        raise KernelError(
            f"{name}: the chip {chip.name} is a test bench without PULP's peripherals"
        )
    data_offset = -(-(CODE_OFFSET + code) // ALIGNED) * ALIGNED
    l1_size, l2_size = chip.l1.size - stack * chip.cores, chip.l2.size - data_offset
    if l1_size <= 0 or l2_size <= 0:
        raise KernelError(
            f"{name}: l1.size {chip.l1.size} and l2.size {chip.l2.size} leave no room after "
            f"{stack * chip.cores} bytes of stacks in L1 and {data_offset} bytes of code in L2"
        )
    registers = "f" if chip.core.float_registers == "f" else "x"
    return Kernel(
        chip.core.instructions(registers),
        Arena("L1", chip.l1.base, l1_size, guard),
        Arena("L2", chip.l2.base + data_offset, l2_size, guard),
        name=name,
        code_at=Arena("code", chip.l2.base + CODE_OFFSET, data_offset - CODE_OFFSET),
        stack=stack,
    )


@contextmanager
def team_of(
    k: Kernel, chip: SocSpec, cores: int, controller: Label | None = None
) -> Iterator[Team]:
    """The whole program around a body that `cores` cores execute, from boot to exit with code 0.

    controller    where the fabric controller goes on after the boot; None: it sleeps

    raises        KernelError if the chip does not have as many
    """
    start = k.label("cluster_start")
    begin_controller(k, chip, cores, start)
    if controller:
        k.j(controller)
    else:
        sleep(k)
    team = begin_cluster(k, chip, cores, start)
    yield team
    with k.scope():
        core = k.x()
        team.core(core)
        check_stack(k, core)
    team.barrier()
    with team.only(0):
        exit_(k, 0)
    sleep(k)


def begin_controller(k: Kernel, chip: SocSpec, cores: int, start: Label) -> None:
    """Emit what the fabric controller does first, the entry of the program: `cores` cores start.

    raises    KernelError if the chip does not have as many
    """
    if not 1 <= cores <= chip.cores:
        raise KernelError(f"{k.name}: {cores} cores; the chip {chip.name} has 1 to {chip.cores}")
    declare_stacks(k, chip)
    k.here("_start")
    k.li(SP, chip.l2.base + CONTROLLER)
    switch_floats_on(k, chip)
    with k.scope():
        value, t = k.x(2)
        k.li(value, -1)
        for cache in ("fabric_icache", "cluster_icache"):
            k.li(t, address_of(cache, "ENABLE"))
            k.sw(value, 0, t)
        control = address_of("cluster_control", "END")
        k.li(t, control)
        k.la(value, start)
        for core in range(cores):
            k.sw(value, address_of("cluster_control", "BOOT_ADDRESS", core) - control, t)
        k.li(value, (1 << cores) - 1)
        k.sw(value, address_of("cluster_control", "FETCH_ENABLE") - control, t)


def begin_cluster(k: Kernel, chip: SocSpec, cores: int, start: Label) -> Team:
    """Emit what all cores of the cluster do first: stack, events, the barrier of the team."""
    k.place(start)
    team = Team(k, cores)
    with k.scope():
        core = k.x()
        team.core(core)
        begin_stack(k, chip, core)
        switch_floats_on(k, chip)
        value, t = k.x(2)
        k.li(t, EVENT_UNIT)
        k.li(value, WAITED_FOR)
        k.sw(value, in_event_unit("MASK"), t)
        k.free(value, t)
    set_team(k, cores)
    return team


def switch_floats_on(k: Kernel, chip: SocSpec) -> None:
    """Set mstatus.FS, which CV32E40P with F registers has, and which is off at reset."""
    if chip.core.isa == "cv32e40p" and k.float_file == "f":
        with k.scope():
            t = k.x()
            k.li(t, MSTATUS_FS)
            k.csrw(CSRS["mstatus"], t)


def set_team(k: Kernel, cores: int) -> None:
    """Let barrier 0 wait for cores 0 .. cores-1."""
    with k.scope():
        value, t = k.x(2)
        k.li(t, EVENT_UNIT)
        k.li(value, (1 << cores) - 1)
        for register in ("BARRIER_TRIGGER_MASK", "BARRIER_TARGET_MASK"):
            k.sw(value, in_event_unit(register), t)


def sleep(k: Kernel) -> None:
    """For ever: nothing interrupts it."""
    again = k.here()
    k.wfi()
    k.j(again)

"""Boot of the platform, and what a team of cluster cores needs: stacks, numbers, a barrier, exit.

    fabric controller    instruction caches on, boot addresses, fetch enable; then it sleeps
    core i of the team   its stack, events, barrier; the body; a last barrier; core 0 ends the run

Every address is the platform's: the programs also run on other simulators of PULP, as those of
PULP's own runtime do (crt0: entry in L2, 1 kB of stack for each core from the top of L1 down).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from firmware.arena import Arena
from firmware.builder import EQ, Kernel, KernelError, Register
from firmware.registers import SP, ZERO
from isa.names import CSRS
from isa.profiles import profile
from soc.registers import CLUSTER_EVENTS, event_line, memory_map
from soc.spec import SocSpec

STACK = 1024  # bytes of each core
CODE_OFFSET = 0x10080  # in L2: behind the private banks and the vectors
DATA_OFFSET = 0x20000
CONTROLLER_STACK = 0x8000  # in L2: the end of its private bank 0, growing down
CORE_NUMBER = 0x1F  # bits of mhartid; the others are the cluster's number
END_OF_RUN = 1 << 31

_REGIONS = {region.name: region for region in memory_map(1 << 16, 1 << 21)}

EVENT_UNIT = _REGIONS["event_unit"].base
DMA = _REGIONS["dma"].base
BARRIER_EVENT = 1 << event_line(CLUSTER_EVENTS, "barrier")


def address_of(region: str, register: str, index: int = 0) -> int:
    """Address of a register of the memory map: address_of("soc_control", "CORE_STATUS")."""
    block = _REGIONS[region].block
    assert block is not None
    return _REGIONS[region].base + block.offset(register, index)


def new_kernel(chip: SocSpec, name: str = "program", guard: int = 0) -> Kernel:
    """An empty program for a chip. Floats live in x registers unless the chip says otherwise.

    guard     bytes that stay free around every buffer

    raises    KernelError if the chip is a test bench, or its memories are too small
    """
    if chip.control_page:
        raise KernelError(
            f"{name}: the chip {chip.name} is a test bench without PULP's peripherals"
        )
    l1_size, l2_size = chip.l1.size - STACK * chip.cores, chip.l2.size - DATA_OFFSET
    if l1_size <= 0 or l2_size <= 0:
        raise KernelError(
            f"{name}: l1.size {chip.l1.size} and l2.size {chip.l2.size} leave no room behind "
            f"{STACK * chip.cores} bytes of stacks in L1 and {DATA_OFFSET} bytes of code in L2"
        )
    registers = "f" if chip.core.float_registers == "f" else "x"
    code = Arena("code", chip.l2.base + CODE_OFFSET, DATA_OFFSET - CODE_OFFSET)
    return Kernel(
        profile(chip.core.isa, registers, chip.core.small_floats),
        Arena("L1", chip.l1.base, l1_size, guard),
        Arena("L2", chip.l2.base + DATA_OFFSET, l2_size, guard),
        name=name,
        code_at=code,
    )


class Team:
    """Cluster cores 0 .. cores-1, which all execute the code that is emitted."""

    def __init__(self, k: Kernel, cores: int) -> None:
        self.k, self.cores = k, cores

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
        """Wait for all cores: barrier 0 of the event unit, whose event is the only one unmasked."""
        k = self.k
        with k.scope():
            t = k.x()
            k.li(t, EVENT_UNIT)
            offset = address_of("event_unit", "BARRIER_TRIGGER_WAIT_CLEAR") - EVENT_UNIT
            k.by_field(("p_elw", "cv_elw"), rd=t, imm=offset, rs1=t)


@contextmanager
def team_of(k: Kernel, chip: SocSpec, cores: int) -> Iterator[Team]:
    """The whole program around a body that `cores` cores execute, from boot to exit with code 0.

    raises    KernelError if the chip does not have as many
    """
    if not 1 <= cores <= chip.cores:
        raise KernelError(f"{k.name}: {cores} cores; the chip {chip.name} has 1 to {chip.cores}")
    start = k.label("cluster_start")
    _boot(k, chip, cores, start)
    k.place(start)
    team = Team(k, cores)
    with k.scope():
        core, t = k.x(2)
        team.core(core)
        k.li(SP, chip.l1.base + chip.l1.size)
        k.slli(t, core, STACK.bit_length() - 1)
        k.sub(SP, SP, t)
    _prepare_events(k, cores)
    yield team
    team.barrier()
    with team.only(0):
        exit_(k, 0)
    _sleep(k)


def exit_(k: Kernel, code: int | Register) -> None:
    """End the run with this code, 0 .. 2^31-1."""
    with k.scope():
        status, t = k.x(2)
        if isinstance(code, int):
            k.li(status, END_OF_RUN | code)
        else:
            k.li(t, END_OF_RUN)
            k.or_(status, code, t)
        k.li(t, address_of("soc_control", "CORE_STATUS"))
        k.sw(status, 0, t)


def _boot(k: Kernel, chip: SocSpec, cores: int, start) -> None:
    """What the fabric controller does: entry of the program."""
    k.here("_start")
    k.li(SP, chip.l2.base + CONTROLLER_STACK)
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
    _sleep(k)


def _prepare_events(k: Kernel, cores: int) -> None:
    """Unmask the barrier's event alone, and let the barrier wait for the team."""
    with k.scope():
        value, t = k.x(2)
        k.li(t, EVENT_UNIT)
        k.li(value, BARRIER_EVENT)
        k.sw(value, address_of("event_unit", "MASK") - EVENT_UNIT, t)
        k.li(value, (1 << cores) - 1)
        for register in ("BARRIER_TRIGGER_MASK", "BARRIER_TARGET_MASK"):
            k.sw(value, address_of("event_unit", register) - EVENT_UNIT, t)


def _sleep(k: Kernel) -> None:
    """For ever: nothing interrupts it."""
    again = k.here()
    k.wfi()
    k.j(again)

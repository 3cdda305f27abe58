"""Stacks: one for each core, from the top of L1 down, and what happens when one is not enough.

The program's symbols say where they are, and so do RI5CY's CSRs of a stack checker: simulators stop
a core whose sp leaves its stack (soc.core.stack_check). Chips do not. For them the lowest words of
every stack hold a pattern. If it is gone when a core ends its work, the program prints which core's
stack has overflowed and exits with OVERFLOW; a function that leaves all of these words in its frame
untouched is missed.
"""

from firmware.builder import NE, Kernel, Register
from firmware.platform import address_of
from firmware.registers import SP, ZERO
from isa.assembler.names import RI5CY_CSRS
from isa.words import sext
from soc.chip.spec import SocSpec
from soc.chip.stacks import (
    CLUSTER_STACKS,
    CONTROLLER_STACK,
    CONTROLLER_STACK_SIZE,
    CORE_STACK_SIZE,
    LARGEST_OF_KERNEL,
)

STACK = 1024  # bytes of each core
STACKS = (256, 512, STACK, LARGEST_OF_KERNEL)  # that a program can have instead
CONTROLLER = 0x8000  # bytes of the fabric controller's: private bank 0 of L2
PATTERN = 0x57AC57AC
PATTERN_SIZE = 32  # bytes at the end of a stack
OVERFLOW = 0x53  # exit code
END_OF_RUN = 1 << 31
TEXT = b"stack overflow on core "


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


def declare_stacks(k: Kernel, chip: SocSpec) -> None:
    """Let the program's symbols say where all stacks are."""
    k.define(CLUSTER_STACKS, chip.l1.base + chip.l1.size)
    k.define(CORE_STACK_SIZE, k.stack)
    k.define(CONTROLLER_STACK, chip.l2.base + CONTROLLER)
    k.define(CONTROLLER_STACK_SIZE, CONTROLLER)


def _zone(k: Kernel) -> range:
    """Return the offsets of the pattern's words from the top of the stack."""
    return range(-k.stack, -k.stack + PATTERN_SIZE, 4)


def begin_stack(k: Kernel, chip: SocSpec, core: Register) -> None:
    """Let sp be the top of a core's empty stack, with the pattern at its end.

    It is set at once: a value on the way there may be on a stack, which sp must not leave.
    """
    with k.scope():
        t, top = k.x(2)
        k.li(top, chip.l1.base + chip.l1.size)
        k.slli(t, core, k.stack.bit_length() - 1)
        k.sub(SP, top, t)
        if "p_elw" in k.isa:
            k.csrw(RI5CY_CSRS["stack_end"], SP)
            k.addi(t, SP, -k.stack)
            k.csrw(RI5CY_CSRS["stack_start"], t)
            k.li(t, 1)
            k.csrw(RI5CY_CSRS["stack_conf"], t)
        k.li(t, PATTERN)
        for offset in _zone(k):
            k.sw(t, offset, SP)


def check_stack(k: Kernel, core: Register) -> None:
    """End the run if the stack of this core, empty again, has overflowed."""
    with k.scope():
        values = k.x(len(_zone(k)))
        for value, offset in zip(values, _zone(k), strict=True):
            k.lw(value, offset, SP)
        total, *others = values
        for value in others:
            k.add(total, total, value)
        k.li(others[0], sext(PATTERN * len(values), 32))
        with k.if_(NE, total, others[0]):
            _report(k, core)


def _report(k: Kernel, core: Register) -> None:
    """Print the message without a stack, and exit."""
    with k.scope():
        char, out, ten = k.x(3)
        k.li(out, address_of("stdout", "PUT"))
        for letter in TEXT:
            k.li(char, letter)
            k.sb(char, 0, out)
        k.li(ten, 10)
        k.divu(char, core, ten)
        k.remu(ten, core, ten)
        below_ten = k.label()
        k.beq(char, ZERO, below_ten)
        k.addi(char, char, ord("0"))
        k.sb(char, 0, out)
        k.place(below_ten)
        k.addi(ten, ten, ord("0"))
        k.sb(ten, 0, out)
        k.li(char, ord("\n"))
        k.sb(char, 0, out)
    exit_(k, OVERFLOW)
    again = k.here()
    k.wfi()
    k.j(again)

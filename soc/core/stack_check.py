"""The check of sp: an instruction may not take it from inside its stack to outside.

It costs no cycle, and nothing where no bounds are known. They come from the program's symbols
(soc.chip.stacks) or from CSRs: stack_start and stack_end while stack_conf is not 0.

PULP's public RTL has no such registers (riscv_cs_registers.sv: a write does nothing, a read gives
0). pulp-runtime and pulp-sdk declare them, and GVSoC checks the address of each load and store
whose base is sp against them. Here sp itself is looked at, so that a frame that is never stored to
is seen too.
"""

from soc.prelude.step import inlined_step, step

SP = 2

MOVES_SP = 8
"""In the `checks` of a row: it computes a value of sp. Of a load, a CSR or a constant it does not:
another stack may be taken so."""

STACK_CONF, STACK_START, STACK_END = 1, 2, 3
"""Where a hart's plain storage of CSRs has them, the last ones."""

LOWEST, HIGHEST = 0, 0xFFFFFFFF
"""Bounds of a stack of which none are known."""


@inlined_step
def is_on_stack(hart, sp):
    """Is this value of sp inside the stack? That of an empty one is its end."""
    address = int(sp) & 0xFFFFFFFF
    return hart["stack_start"] <= address and address <= hart["stack_end"]


@inlined_step
def leaves_stack(hart, before):
    """Has sp left its stack, where it was before the instruction?"""
    return is_on_stack(hart, before) and not is_on_stack(hart, hart["regs"][SP])


@inlined_step
def note_depth(hart):
    """Note how deep the stack is; where no bounds are known, that says nothing."""
    sp = int(hart["regs"][SP]) & 0xFFFFFFFF
    if sp < hart["deepest"] and is_on_stack(hart, sp):
        hart["deepest"] = sp


@step
def set_stack_bounds(hart):
    """Take over the bounds that the program has written to the CSRs: these, or none."""
    is_on, start, end = hart["csr"][STACK_CONF], hart["csr"][STACK_START], hart["csr"][STACK_END]
    hart["stack_start"] = start if is_on else LOWEST
    hart["stack_end"] = end if is_on else HIGHEST
    hart["deepest"] = HIGHEST

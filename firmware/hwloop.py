"""Hardware loops of code under construction: two, nested; what their bodies may hold.

Sources: CV32E40P user manual, chapter "CORE-V Hardware Loop feature", section "Hardware Loop
constraints"; RI5CY: a body that ends in a jump, or where its inner loop ends, leaves too early
(measured on RTL).
"""

from dataclasses import dataclass

from firmware.code import Code, Instruction, Item, Label
from firmware.registers import KernelError

SHORTEST = 3  # instructions of a body
MOST = 4095  # iterations that an immediate can say
FORBIDDEN = ("branch", "jump", "jalr", "fence", "fencei", "system")  # timing classes, CV32E40P
ALLOWED = ("ecall", "ebreak")


@dataclass
class OpenLoop:
    """A hardware loop whose body is being emitted.

    start    label of the body's first instruction
    inner    last item of the loop inside it, None without one
    depth    loops inside it, one in the other
    """

    start: Label
    inner: Item | None = None
    depth: int = 0


def check(loop: OpenLoop, code: Code, is_cv32e40p: bool) -> None:
    """Raise KernelError if a hardware loop cannot have this body."""
    body = code.after(loop.start)
    if loop.depth > 1:
        raise KernelError("hwloop: three are nested; a core has two, make the outermost a loop")
    if len(body) < SHORTEST:
        raise KernelError(
            f"hwloop: a body of {len(body)} instructions; it has at least {SHORTEST}, unroll it"
        )
    if loop.inner is not None:
        after = len(code.after(loop.inner))
        least = 2 if is_cv32e40p else 1
        if after < least:
            raise KernelError(
                f"hwloop: {after} instructions between the ends of two nested ones; "
                f"there are at least {least}"
            )
    if isinstance(code.items[-1], Label):
        raise KernelError(
            "hwloop: a label stands after the last instruction; the loop ends with it, so add one"
        )
    if is_cv32e40p:
        for instruction in body:
            _check_cv32e40p(instruction)
    elif body[-1].is_jump:
        raise KernelError(f"hwloop: the body ends in {body[-1].form.mnemonic}; no jump may end it")


def _check_cv32e40p(instruction: Instruction) -> None:
    insn = instruction.insn
    if insn.encoding.size == 2 or insn.timing in FORBIDDEN and insn.key not in ALLOWED:
        raise KernelError(
            f"hwloop: {instruction.form.mnemonic} ({instruction.source}) in the body; CV32E40P "
            f"allows no jump, branch, fence, privileged or 16-bit instruction there"
        )

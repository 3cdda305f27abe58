"""The call chain of a hart: its function, who called that, and so on, with their source lines.

By the program's call frames where it has them (isa.elf.call_frames); else the return address in ra
tells of one caller, if it comes after a call.
"""

from collections.abc import Callable
from typing import NamedTuple

from isa.elf.call_frames import RETURN_ADDRESS, STACK_POINTER
from isa.program import Program

DEEPEST = 64
"""Frames of a chain, at most."""


class Place(NamedTuple):
    """A frame: the next instruction of the innermost, the instruction after the call of others."""

    pc: int
    function: str
    file: str = ""
    line: int = 0


def call_chain(
    program: Program,
    pc: int,
    registers: dict[int, int],
    read: Callable[[int], int | None],
) -> list[Place]:
    """The frames of a hart, the innermost first.

    registers    x registers by number, unsigned
    read         a word of memory at an address, None where there is none
    """
    chain, now, known = [place(program, pc, pc)], pc, dict(registers)
    while len(chain) < DEEPEST:
        frame = program.frames.at(now if len(chain) == 1 else now - 2)
        if frame is None:
            back = known.get(RETURN_ADDRESS, 0) if len(chain) == 1 else 0
        elif frame.is_outermost:
            break
        else:
            base = known.get(frame.register)
            if base is None:
                break
            cfa = base + frame.offset & 0xFFFFFFFF
            saved = {number: read(cfa + offset) for number, offset in frame.saved.items()}
            known |= {number: value for number, value in saved.items() if value is not None}
            if cfa <= known.get(STACK_POINTER, 0) and len(chain) > 1:
                break
            known[STACK_POINTER] = cfa
            back = known.get(RETURN_ADDRESS, 0)
        if back == now or not _is_after_call(program, back):
            break
        chain.append(place(program, back, back - 2))
        now = back
    return chain


def place(program: Program, pc: int, within: int) -> Place:
    """The frame at an address.

    within    an address in the instruction whose function and line are meant
    """
    symbol, line = program.symbol_at(within), program.lines.at(within)
    return Place(pc, symbol.name if symbol else f"{pc:#010x}", *(line or ()))


def _is_after_call(program: Program, address: int) -> bool:
    """Does the instruction before this one jump and link? By its code, of 32 or 16 bits."""
    long, short = (program.bytes_at(address - size, size) for size in (4, 2))
    word, half = int.from_bytes(long, "little"), int.from_bytes(short, "little")
    if len(long) == 4 and word & 0x7F in (0x6F, 0x67) and word >> 7 & 31 == RETURN_ADDRESS:
        return True
    return len(short) == 2 and (half & 0xE003 == 0x2001 or half & 0xF07F == 0x9002)

"""Guards: what a program may print, and what ends its run besides an error of its own."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isa.assembler.disasm import disassemble
from isa.declare import Isa
from isa.extensions.flex_v import ALWAYS_WRONG
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.prelude.decoded import STORE

MOST_WARNINGS = 20
"""That are told; of the others there is the count."""

CONSOLE_LIMIT = 1_000_000  # bytes


class Guards(NamedTuple):
    """How a run is watched.

    console_limit    bytes that the program may print; the rest is dropped, and counted
    is_strict        the first warning ends the run, with the reason "warning"
    is_raw           characters keep the order of their stores, instead of a line a core
    """

    console_limit: int = CONSOLE_LIMIT
    is_strict: bool = False
    is_raw: bool = False


DEFAULT_GUARDS = Guards()


def told(warnings: Sequence[str]) -> tuple[str, ...]:
    """The first of some warnings, then how many more there are."""
    first, more = tuple(warnings[:MOST_WARNINGS]), len(warnings) - MOST_WARNINGS
    return (*first, f"and {more:,} more") if more > 0 else first


def console_warning(limit: int, dropped: int = 0) -> str:
    """What is told of a program that prints more than it may."""
    what = f"console: the limit of {limit:,} bytes is reached (--console-limit)"
    return f"{what}; {dropped:,} more are dropped" if dropped else what


def lost_entries_warning(count: int) -> str:
    """What is told of entries of the DMA's 2D queues that no command has any more."""
    return (
        f"dma: {count:,} entries of its 2D queues are lost: commands with lines on both sides got "
        "one of two; MCHAN never frees them; without any left, commands with lines wait for ever; "
        "let all of a program have lines on both sides, or all on one"
    )


def wrong_on_rtl_warning(program: Program, isa: Isa, pc: int, word: int) -> str:
    """What is told of an instruction that RI5CY's public RTL computes wrong."""
    decoded = isa.decode(word)
    assert decoded, "an illegal word computes nothing"
    place = program.place_and_line(pc)
    where = f"{pc:#010x} in {place}" if place else f"{pc:#010x}"
    return (
        f"pc {where} ({disassemble(word, isa, pc)}): {ALWAYS_WRONG[decoded.insn.name]}; "
        "core.rtl_defects = true does as it does"
    )


def null_warning(spec: SocSpec, h: int, row: np.void, address: int) -> str:
    """What is told of an access through a null pointer, by the row of its instruction."""
    access = "store" if row["kind"] == STORE else "load"
    is_l1 = h < spec.cores and not spec.control_page
    memory, base = ("L1", spec.l1.base) if is_l1 else ("L2", spec.l2.base)
    return (
        f"{access} at {address:#010x}, hardly meant: {memory} answers there, as at "
        f"{base + address:#010x}; is it a null pointer?"
    )

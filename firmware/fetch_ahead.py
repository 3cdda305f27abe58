"""Code fetched ahead: the cores of a team bring its lines into the shared instruction cache.

Cores that execute the same code for the first time miss the same lines, one after the other, all at
once: one miss is under way where L2 would answer eight. Here each core fetches other lines, before
the code comes to them.

    with ahead(k, team) as fetch:
        ...
        fetch()         # all that follows, up to the end
        ...

    fetch(until)        # or up to a label that the body places

A core fetches a line without executing anything of it. A hardware loop starts in the line and ends
right after a branch: while the branch is decoded, the prefetch buffer is at the loop's end and asks
for its start; then the branch is taken, and what comes is dropped. RI5CY takes the start from a
CSR. CV32E40P has no such CSR, and fetches nothing.

The shared cache replaces lines at random. So of all code, what comes first is fetched last: what it
has lost by then is needed later. Of a part, what comes last is fetched last: that runs while the
DMA copies what the next part needs, and a line that has been lost holds up all cores.

NOTE: while the DMA reads from L2, a line waits for the bursts that the DMA has asked for, up to 256
cycles. So where the first copies are short and all cores start them, code is fetched before them;
where they are long, or one core starts them, while they run.

Sources: riscv_hwloop_controller.sv, riscv_prefetch_buffer.sv of RI5CY (riscv_nn astral-v1.0).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from firmware.builder import Kernel, KernelError, Label
from firmware.code import Code
from firmware.registers import GP, RA, ZERO, S
from firmware.team import Team
from isa.assembler.names import RI5CY_CSRS
from soc.icache.private_cache import LINE_BYTES

LEAST, MOST = 24, 120
"""Lines for which that is worth its own code, and those that are fetched at most: the shared cache
has 256."""

AT, FIRST, CORE = OWN = (GP, RA, S[11])
"""Registers of the code that fetches: those given out last. A call leaves in RA where the code
begins that it fetches, which follows it.
"""


def can_fetch(k: Kernel, team: Team) -> bool:
    """Can cores fetch code for each other?"""
    return team.cores > 1 and k.isa.loop_end == "last"


@contextmanager
def ahead(k: Kernel, team: Team, is_cold: bool = True) -> Iterator[Callable[..., None]]:
    """Yield what emits the fetch of all code from there to the end of the body, or up to a label
    that it is given, if it is worth it.

    No register of OWN is in use there, and no hardware loop is open; others keep their values.

    is_cold    is the code in no cache?

    raises     KernelError if a register of OWN is in use
    """
    parts: list[tuple[Label, Label | None]] = []

    def fetch(until: Label | None = None) -> None:
        if is_cold and can_fetch(k, team):
            if taken := [register.name for register in OWN if register in k.registers.live]:
                raise KernelError(f"{k.name}: {', '.join(taken)} in use, fetching code")
            parts.append((k.here(), until))

    yield fetch
    for start, until in reversed(parts):  # the code that fetches one is part of those before
        _insert_fetch(k, team, start, until)


def _insert_fetch(k: Kernel, team: Team, start: Label, until: Label | None) -> None:
    """Insert what fetches the code from a label to another one, or to here, in front of it."""
    size = k.code.size_since(start) - (k.code.size_since(until) if until else 0)
    if size < LEAST * LINE_BYTES:
        return
    around, k.code = k.code, Code()
    with k.compact():
        k.li(AT, min(size, MOST * LINE_BYTES))
        if team.fetcher and not until:
            k.jal(FIRST, team.fetcher)
        else:
            k.la(FIRST, start)
            k.add(AT, AT, FIRST)
            emit_fetch(k, team, is_part=until is not None)
    place = around.items.index(start)
    around.items[place:place] = k.code.items
    k.code = around


def emit_fetcher(k: Kernel, team: Team) -> None:
    """Emit the code that fetches as a function, for all that the team fetches from now on."""
    with k.aside("fetch_ahead") as label, k.compact():
        k.place(label)
        k.add(AT, AT, FIRST)
        emit_fetch(k, team)
        k.jr(FIRST)
    team.fetcher = label


def emit_fetch(k: Kernel, team: Team, is_part: bool = False) -> None:
    """Fetch the core's share of the lines from FIRST to AT, the last ones first, or, of a part, the
    first ones; these registers and CORE change.

    NOTE: the first round fetches nothing if the loop's own line comes too late for it; so there is
    one more.
    """
    again, end, done = (k.label() for _ in range(3))
    at, last, step = (FIRST, AT, LINE_BYTES) if is_part else (AT, FIRST, -LINE_BYTES)
    step *= team.cores
    team.core(CORE)
    k.slli(CORE, CORE, LINE_BYTES.bit_length() - 1)
    k.add(at, at, CORE)
    if is_part:
        k.addi(at, at, -step)
    k.lp_endi(0, end)
    k.lp_counti(0, 2)
    k.place(again)
    k.csrw(RI5CY_CSRS["lpstart0"], at)
    (k.bge if is_part else k.blt)(at, last, done)
    k.addi(at, at, step)
    k.beq(ZERO, ZERO, again)
    k.place(end)
    k.nop()  # never executed: the loop would go back
    k.place(done)
    k.lp_counti(0, 0)

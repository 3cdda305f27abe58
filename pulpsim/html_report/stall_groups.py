"""The parts that a hart's cycles are divided into: what pictures and tables say about causes."""

from collections.abc import Mapping
from dataclasses import dataclass

from soc.prelude.counters import CAUSES


@dataclass(frozen=True)
class StallGroup:
    """Some of a hart's cycles.

    key       also its class in the style sheet
    name      for people
    causes    of stalls, by their names in reports; none: instructions
    """

    key: str
    name: str
    causes: tuple[str, ...]


PARTS = (
    StallGroup("work", "instructions", ()),
    StallGroup("conflict", "L1 conflicts", ("l1_contention",)),
    StallGroup("fetch", "instruction cache", ("fetch",)),
    StallGroup(
        "wait",
        "waits for results",
        (
            "load_use",
            "jump_register",
            "multicycle",
            "fpu_dependency",
            "fpu_contention",
            "fpu_writeback",
        ),
    ),
    StallGroup("flow", "branches, jumps", ("branch", "jump")),
    StallGroup("outside", "beyond L1", ("load_external", "store_external")),
    StallGroup("other", "misaligned, CSRs, traps", ("misaligned", "csr", "fence", "trap")),
    StallGroup("barrier", "asleep at barriers", ()),
    StallGroup("asleep", "asleep", ("event", "wfi")),
    StallGroup("off", "off", ("off",)),
)
"""In the order of pictures. A trace tells which sleep is at barriers; counters do not."""

PART = {part.key: index for index, part in enumerate(PARTS)}
"""Index of each."""

PART_OF_CAUSE = {cause: index for index, part in enumerate(PARTS) for cause in part.causes}
PART_OF = [PART_OF_CAUSE[cause] for cause in CAUSES]
"""Index of the part of each cause of stalls."""

IDLE = ("event", "wfi", "off")
"""Causes of a hart that has nothing to do."""

MEANINGS = {
    "load_use": "the next instruction needs what a load delivers",
    "jump_register": "the register of an indirect jump is not ready",
    "branch": "fetching anew after a taken branch",
    "jump": "fetching anew after a jump",
    "fetch": "the instruction is not in the cache",
    "l1_contention": "another initiator had the bank",
    "misaligned": "the second access of a misaligned one",
    "multicycle": "long multiplications and divisions",
    "csr": "the pipeline empties for a CSR",
    "fence": "the pipeline empties for a fence",
    "fpu_dependency": "the result is still in the FPU",
    "fpu_contention": "the FPU is busy",
    "fpu_writeback": "the write port is taken by a result of the FPU",
    "load_external": "a load from L2 or a register",
    "store_external": "a store to L2 or a register",
    "event": "asleep at the event unit: barrier, DMA, mutex",
    "trap": "entering and leaving handlers",
    "wfi": "asleep until an interrupt",
    "off": "not started yet, or ended",
}
"""What each cause of stalls means."""


def parts_of(instructions: int, stalls: Mapping[str, int], at_barriers: int | None) -> list[int]:
    """Cycles of a hart by part; they add up to all its cycles.

    at_barriers    of the cycles asleep; None: not known, and none are shown apart
    """
    cycles = [0] * len(PARTS)
    cycles[PART["work"]] = instructions
    for cause, number in stalls.items():
        cycles[PART_OF_CAUSE[cause]] += number
    moved = min(at_barriers or 0, cycles[PART["asleep"]])
    cycles[PART["barrier"]] += moved
    cycles[PART["asleep"]] -= moved
    return cycles


def hundredths(cycles: list[int]) -> list[int]:
    """Shares in hundredths of a percent which add up to 10,000 exactly: largest remainders."""
    whole = sum(cycles)
    if not whole:
        return [0] * len(cycles)
    shares = [10_000 * part // whole for part in cycles]
    by_rest = sorted(range(len(cycles)), key=lambda i: (-(10_000 * cycles[i] % whole), i))
    for index in by_rest[: 10_000 - sum(shares)]:
        shares[index] += 1
    return shares

"""Findings of the checks of a run, in numbers and in words."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from isa.program import Program
from soc.check.findings import CONSTANT, IN_FLIGHT, LEAK, NOBODY, OUTSIDE, RACE, UNWRITTEN
from soc.chip.spec import SocSpec
from soc.chip.state import Chip
from soc.core.stack_check import HIGHEST

CHECKS = ("races", "memory", "stack", "performance")

KINDS = {
    RACE: ("races", "race", "neither happened before the other"),
    UNWRITTEN: ("memory", "unwritten", "nothing has written it"),
    OUTSIDE: ("memory", "outside", "it belongs to no section, buffer or stack"),
    CONSTANT: ("memory", "constant", "it is code or a constant"),
    IN_FLIGHT: ("memory", "in_flight", "no core has waited for the end of this copy"),
    LEAK: ("memory", "leak", "it was never freed"),
}
"""Check, name and what is wrong, by kind."""


@dataclass(frozen=True)
class Access:
    """One side of a finding.

    who       "core3", "fc", or "the DMA for core3"
    does      "reads", "writes", "allocates"
    place     function and line, as far as they are known
    """

    who: str
    hart: int
    cycle: int
    pc: int
    does: str
    place: str
    function: str
    line: str

    def __str__(self) -> str:
        where = f"{self.pc:#010x} in {self.place}" if self.place else f"{self.pc:#010x}"
        return f"{self.who} {self.does} it in cycle {self.cycle}, pc {where}"

    def to_json(self) -> dict[str, Any]:
        """The access for programs."""
        return {name: value for name, value in vars(self).items() if name != "place"}


@dataclass(frozen=True)
class Finding:
    """A finding of a check.

    check       "races" or "memory"
    kind        "race", "unwritten", "outside", "constant", "in_flight" or "leak"
    address     of its first byte; of a leak the number of the counter
    what        the address in words
    accesses    the one that was found, and the earlier one if there is one
    count       how often, between these two instructions
    """

    check: str
    kind: str
    address: int
    size: int
    what: str
    accesses: tuple[Access, ...]
    count: int
    message: str

    def to_json(self) -> dict[str, Any]:
        """The finding for programs."""
        return vars(self) | {"accesses": [access.to_json() for access in self.accesses]}


@dataclass(frozen=True)
class Conflicts:
    """What a source line, or else an instruction, has lost at the banks.

    share       of its accesses that have lost once, on the average
    distance    bytes from what a core asks for to what the next core does, if one is usual
    advice      a distance that would avoid it, in words, "" if none would
    """

    place: str
    pc: int
    accesses: int
    conflicts: int
    distance: int | None
    advice: str

    @property
    def share(self) -> float:
        return self.conflicts / max(self.accesses, 1)

    def to_json(self) -> dict[str, Any]:
        """The line for programs."""
        return vars(self) | {"share": self.share}


@dataclass(frozen=True)
class Checked:
    """The checks of a run: which were made, and what they have found.

    dropped    accesses that would have been further findings, beyond MOST_FINDINGS
    """

    checks: tuple[str, ...]
    findings: tuple[Finding, ...]
    dropped: int
    conflicts: tuple[Conflicts, ...]

    def to_json(self) -> dict[str, Any]:
        """The checks for programs."""
        return {
            "made": list(self.checks),
            "findings": [finding.to_json() for finding in self.findings],
            "dropped": self.dropped,
            "conflicts": [conflicts.to_json() for conflicts in self.conflicts],
        }


def checked(chip: Chip, spec: SocSpec, program: Program, checks: Collection[str]) -> Checked:
    """What the checks have found in a run that is over."""
    words = _Words(chip, spec, program)
    found = chip.findings[: int(chip.check[0]["findings"])]
    findings = [words.finding(record) for record in found]
    if "memory" in checks:
        findings += words.leaks()
    made = tuple(name for name in CHECKS if name in checks)
    conflicts = tuple(words.conflicts()) if "performance" in checks else ()
    return Checked(made, tuple(findings), int(chip.check[0]["dropped"]), conflicts)


class _Words:
    """Says what is in a chip's records."""

    def __init__(self, chip: Chip, spec: SocSpec, program: Program):
        self.chip, self.spec, self.program = chip, spec, program

    def finding(self, record: np.void) -> Finding:
        check, kind, wrong = KINDS[int(record["kind"])]
        number, size, count = int(record["byte"]), int(record["size"]), int(record["count"])
        in_l1 = number < self.spec.l1.size
        address = number + (self.spec.l1.base if in_l1 else self.spec.l2.base - self.spec.l1.size)
        what = self.program.place(address) if self.program.symbol_at(address) else ""
        accesses = [
            self._access(record, index) for index in range(2) if record["thread"][index] != NOBODY
        ]
        where = f"{address:#010x} ({what})" if what else f"{address:#010x}"
        told = "; ".join([f"{check}: {where}: {accesses[0]}", *map(str, accesses[1:]), wrong])
        message = f"{told}; {count:,} times" if count > 1 else told
        return Finding(check, kind, address, size, what, tuple(accesses), count, message)

    def _access(self, record: np.void, index: int) -> Access:
        thread, hart = int(record["thread"][index]), int(record["hart"][index])
        is_copy = thread >= self.chip.harts.size
        who = f"the DMA for {self._name(hart)}" if is_copy else self._name(hart)
        does = "writes" if record["is_write"][index] else "reads"
        return self._said(who, hart, int(record["cycle"][index]), int(record["pc"][index]), does)

    def _said(self, who: str, hart: int, cycle: int, pc: int, does: str) -> Access:
        line = self.program.lines.at(pc)
        function = self.program.symbol_at(pc)
        return Access(
            who,
            hart,
            cycle,
            pc,
            does,
            self.program.place_and_line(pc),
            function.name if function else "",
            f"{line[0]}:{line[1]}" if line else "",
        )

    def _name(self, hart: int) -> str:
        return "fc" if self.chip.harts[hart]["external"] else f"core{hart}"

    def leaks(self) -> Iterator[Finding]:
        """Counters of the DMA that are allocated when the program has ended."""
        check, kind, wrong = KINDS[LEAK]
        record = self.chip.check[0]
        for counter, hart in enumerate(record["holder"].tolist()):
            if hart >= 0:
                cycle, pc = int(record["held_cycle"][counter]), int(record["held_pc"][counter])
                access = self._said(self._name(hart), hart, cycle, pc, "allocates")
                message = f"{check}: counter {counter} of the DMA: {access}; {wrong}"
                yield Finding(check, kind, counter, 0, "", (access,), 1, message)

    def conflicts(self) -> Iterator[Conflicts]:
        """What lines have lost, most first."""
        sites = self.chip.sites
        rows = np.flatnonzero(sites["conflicts"])
        lines: dict[str, list[int]] = {}
        for row in rows.tolist():
            lines.setdefault(self._line(row), []).append(row)
        told = [self._of_line(place, sites, rows) for place, rows in lines.items()]
        yield from sorted(told, key=lambda line: -line.conflicts)

    def _line(self, row: int) -> str:
        pc = self.spec.l2.base + 2 * row
        line = self.program.lines.at(pc)
        return f"{line[0]}:{line[1]}" if line else self.program.place(pc)

    def _of_line(self, place: str, sites: np.ndarray, rows: list[int]) -> Conflicts:
        worst = sites[max(rows, key=lambda row: sites[row]["conflicts"])]
        distance = int(worst["distance"]) if worst["votes"] > worst["conflicts"] // 4 else None
        first = self.spec.l2.base + 2 * rows[0]
        accesses, lost = (int(sites[name][rows].sum()) for name in ("accesses", "conflicts"))
        return Conflicts(place, first, accesses, lost, distance, self._advice(distance))

    def _advice(self, distance: int | None) -> str:
        if distance is None:
            return ""
        if distance == 0:
            return "cores read one word at once: give each its own, or keep it in a register"
        banks = self.spec.l1.banks // gcd(max(abs(distance) // 4, 1), self.spec.l1.banks)
        if distance % 4 or banks >= min(self.spec.cores, self.spec.l1.banks):
            return ""
        apart = abs(distance)
        return (
            f"from one core to the next addresses are {apart:,} bytes apart, which meet in {banks} "
            f"of {self.spec.l1.banks} banks: {apart + 4:,} bytes would not"
        )


def stack_use(hart: np.void) -> dict[str, int] | None:
    """Bytes of a hart's stack, and how many it has used at most; None if it is not known."""
    start, end = int(hart["stack_start"]), int(hart["stack_end"])
    if end == HIGHEST:
        return None
    return {"size": end - start, "deepest": max(end - min(int(hart["deepest"]), end), 0)}

"""Pipelines for Konata: each instruction in decode, execution and memory, stalls on lane 1.

    D    in the decode stage: from behind the issue of the one before, at most SPAN cycles back
    X    it has issued
    M    its load or store waits for its grant

Source: Konata, docs/kanata-log-format.md, version 4. A hart is a thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import BinaryIO

from pulpsim.console import one_line
from pulpsim.trace.code import Code
from pulpsim.trace.selection import Selection
from soc.state import CAUSES
from soc.trace import Kind, Trace

SPAN = 64
"""Cycles in which lines wait for earlier ones; longer waits are shown from there on."""


@dataclass
class _Hart:
    """What a hart's next lines depend on."""

    last_issue: int | None = None
    stalls: list[tuple[int, int, str]] = field(default_factory=list)  # since the last issue
    open: list[tuple[int, int, int]] = field(default_factory=list)  # number, pc and issue


class _Log:
    """Lines on their way: by cycle, then in the order in which they were made."""

    def __init__(self, trace: Trace) -> None:
        self.code = Code(trace)
        self.first = trace.first_cycle
        self.harts = [_Hart() for _ in trace.harts]
        self.lines: list[tuple[int, int, str]] = []
        self.made = self.issued = self.retired = 0
        self.cycle: int | None = None

    def note(self, cycle: int, line: str) -> None:
        """A line for a cycle, or for the first one that is not written yet."""
        heappush(self.lines, (max(cycle, self.cycle or 0), self.made, line))
        self.made += 1

    def flush(self, end: int) -> Iterator[str]:
        """The lines of the cycles before this one."""
        while self.lines and self.lines[0][0] < end:
            cycle, _, line = heappop(self.lines)
            if self.cycle is None:
                yield f"C=\t{self.first + cycle}\n"
            elif cycle > self.cycle:
                yield f"C\t{cycle - self.cycle}\n"
            self.cycle = cycle
            yield self._numbered(line)

    def _numbered(self, line: str) -> str:
        """A retirement gets its number where it comes in the file."""
        if not line.startswith("R"):
            return line
        self.retired += 1
        return f"{line}\t{self.retired - 1}\t0\n"

    def issue(self, cycle: int, hart: int, pc: int) -> None:
        """An instruction leaves the decode stage."""
        state, number = self.harts[hart], self.issued
        self.issued += 1
        while len(state.open) > 1:
            self.retire(state, *state.open[0])
        start = cycle if state.last_issue is None else max(state.last_issue + 1, cycle - SPAN)
        self.note(start, f"I\t{number}\t{number}\t{hart}\n")
        self.note(start, f"L\t{number}\t0\t{pc:08x}: {one_line(self.code.text(pc))}\n")
        where = f"{self.code.place(pc)} {self.code.line_name(pc)}".rstrip()
        self.note(start, f"L\t{number}\t1\t{one_line(where)}\n")
        if start < cycle:
            self.note(start, f"S\t{number}\t0\tD\n")
        for begin, end, cause in state.stalls:
            if end > start:
                self.note(max(begin, start), f"S\t{number}\t1\t{cause}\n")
                self.note(end, f"E\t{number}\t1\t{cause}\n")
        state.stalls = []
        self.note(cycle, f"S\t{number}\t0\tX\n")
        state.open.append((number, pc, cycle))
        state.last_issue = cycle

    def grant(self, cycle: int, hart: int, pc: int) -> None:
        """A load or store is done; its instruction has issued, and perhaps the next one."""
        state = self.harts[hart]
        for number, own, issued in state.open[::-1]:
            if own == pc:
                self.note(issued + 1, f"S\t{number}\t0\tM\n")
                self.retire(state, number, own, issued, cycle)
                return

    def retire(self, state: _Hart, number: int, pc: int, issued: int, cycle: int = 0) -> None:
        """The end of an instruction, behind its issue or its grant."""
        state.open.remove((number, pc, issued))
        self.note(max(issued, cycle) + 1, f"R\t{number}")


def konata(trace: Trace, selection: Selection, stream: BinaryIO) -> None:
    """Write the instructions among the selected events."""
    log = _Log(trace)
    stream.write(b"Kanata\t0004\n")
    for part in selection.parts(trace):
        for cycle, kind, hart, extra, a, b in part.tolist():
            if kind == Kind.ISSUE:
                log.issue(cycle, hart, a)
            elif kind == Kind.STALL:
                log.harts[hart].stalls.append((cycle, cycle + b, CAUSES[extra]))
            elif kind == Kind.MEMORY:
                log.grant(cycle, hart, b)
            else:
                continue
            for line in log.flush(cycle - SPAN):
                stream.write(line.encode())
    for state in log.harts:
        while state.open:
            log.retire(state, *state.open[0])
    for line in log.flush(1 << 62):
        stream.write(line.encode())

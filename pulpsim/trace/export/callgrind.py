"""Profiles for KCachegrind and callgrind_annotate: what each instruction takes, and each call.

The costs are cycles, instructions, lost arbitrations, and the stalls by cause, of all harts or of
those selected. Source: Valgrind's manual, "Callgrind Format Specification", version 1.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pulpsim.cli.terminal import one_line
from pulpsim.trace.aggregates import instruction_sums
from pulpsim.trace.calls import HartStack
from pulpsim.trace.code import Code
from pulpsim.trace.selection import Selection
from soc.prelude.counters import CAUSES
from soc.trace.reader import EVENT, Kind, Trace

ROOT = Path(__file__).parents[3]
COSTS = ("Cycles", "Instructions", "Conflicts", *CAUSES)
CYCLES, INSTRUCTIONS, CONFLICTS, FIRST_CAUSE = range(4)
HELD = 64
"""Events after the last issue, at most, that the next one may have to pay for."""

Call = tuple[int, int]
"""Address of the instruction that calls, and the number of the function that it calls."""


def callgrind(trace: Trace, selection: Selection, stream: BinaryIO) -> None:
    """Write the sums of the selected events."""
    rows = instruction_sums(trace, selection.parts(trace))
    code = Code(trace)
    calls = _Calls(trace, code)
    for part in selection.parts(trace):
        calls.add(part)
    calls.close()
    stream.writelines(f"{line}\n".encode() for line in _lines(trace, code, rows, calls))


class _Calls:
    """What calls took, with all that they called.

    costs    how often, and int64[COSTS], by call
    """

    def __init__(self, trace: Trace, code: Code) -> None:
        self.costs: dict[Call, tuple[int, np.ndarray]] = {}
        self.harts = [_HartCalls(code, hart, self) for hart in range(len(trace.harts))]

    def add(self, part: np.ndarray) -> None:
        """The next events, EVENT[n]."""
        kinds = part["kind"]
        costs = (kinds == Kind.ISSUE) | (kinds == Kind.STALL) | (kinds == Kind.CONFLICT)
        for hart in self.harts:
            own = part[costs & (part["hart"] == hart.number)]
            if own.size:
                hart.add(own)

    def close(self) -> None:
        """End all calls."""
        for hart in self.harts:
            hart.close()

    def took(self, call: Call, cost: np.ndarray) -> None:
        """One call has ended."""
        count, before = self.costs.get(call, (0, 0))
        self.costs[call] = count + 1, before + cost


class _HartCalls:
    """The calls of one hart: on the stack with what the hart had taken when each began."""

    def __init__(self, code: Code, number: int, calls: _Calls) -> None:
        self.number, self.calls = number, calls
        self.stack = HartStack(code, number)
        self.held = np.zeros(0, EVENT)
        self.taken = np.zeros(len(COSTS), np.int64)
        self.open: list[tuple[int, np.ndarray]] = []  # address of the call, and `taken` there
        self.last_pc = 0

    def add(self, rows: np.ndarray) -> None:
        """The next events; those after the last issue are looked at with the next one."""
        rows = np.concatenate([self.held, rows])
        issues = np.flatnonzero(rows["kind"] == Kind.ISSUE)
        split = int(issues[-1]) + 1 if issues.size else 0
        rows, self.held = rows[:split], rows[split:]
        if not split:
            self._add(self.held[:-HELD])
            self.held = self.held[-HELD:]
            return
        changes = self.stack.changes(rows[issues], np.arange(issues.size))
        points, first_of = np.unique(changes["issue"], return_index=True)
        costs = _costs(rows, issues, points)
        pcs = rows["a"][issues]
        ends = np.append(first_of, changes.size)[1:]
        self.taken = self.taken + costs[0]
        for k, (point, start, end) in enumerate(zip(points, first_of, ends, strict=True)):
            caller = int(pcs[point - 1]) if point else self.last_pc
            self._change(changes[start:end], caller)
            self.taken = self.taken + costs[k + 1]
        self.last_pc = int(pcs[-1])

    def close(self) -> None:
        """End all calls, with what is after the last issue."""
        self._add(self.held)
        self._change(self.stack.close(0), 0)

    def _add(self, rows: np.ndarray) -> None:
        """What is taken after the last issue."""
        none = np.zeros(0, np.int64)
        self.taken = self.taken + _costs(rows, none, none)[0]

    def _change(self, changes: np.ndarray, caller: int) -> None:
        """Ends and begins at one instruction; what takes another's place has its caller."""
        for change in changes:
            if change["is_begin"]:
                self.open.append((caller, self.taken))
            else:
                caller, taken = self.open.pop()
                if self.open:
                    self.calls.took((caller, int(change["function"])), self.taken - taken)


def _costs(rows: np.ndarray, issues: np.ndarray, points: np.ndarray) -> np.ndarray:
    """What is taken before the first of some issues, and from each of them on: int64[n + 1, COSTS].

    rows      of one hart, up to an issue
    issues    their places
    points    which of them
    """
    kinds, cycles = rows["kind"], rows["b"].astype(np.int64)
    before = np.searchsorted(issues, np.arange(rows.size), "right") - 1  # issue at or before it
    pcs = rows["a"][issues]
    after = np.minimum(before + 1, max(issues.size - 1, 0))
    if issues.size:
        of_next = (kinds != Kind.ISSUE) & (rows["a"] == pcs[after])
        of_next &= (before < 0) | (rows["a"] != pcs[before])
        before = np.where(of_next, after, before)
    section = np.searchsorted(points, before, "right")
    costs = np.zeros((points.size + 1, len(COSTS)), np.int64)
    is_stall, is_issue = kinds == Kind.STALL, kinds == Kind.ISSUE
    np.add.at(costs[:, INSTRUCTIONS], section[is_issue], 1)
    np.add.at(costs[:, CONFLICTS], section[kinds == Kind.CONFLICT], 1)
    causes = rows["extra"][is_stall] + FIRST_CAUSE
    np.add.at(costs, (section[is_stall], causes), cycles[is_stall])
    costs[:, CYCLES] = costs[:, INSTRUCTIONS] + costs[:, FIRST_CAUSE:].sum(axis=1)
    return costs


def _lines(trace: Trace, code: Code, rows: np.ndarray, calls: _Calls) -> Iterator[str]:
    costs = np.column_stack([rows["cycles"], rows["issues"], rows["conflicts"], rows["stalls"]])
    total = costs.sum(axis=0)
    used = [k for k in range(len(COSTS)) if k < FIRST_CAUSE or total[k]]
    yield "# callgrind format"
    yield "version: 1"
    yield "creator: pulpsim"
    yield one_line(f"cmd: {trace.header.get('program', 'program')}")
    yield "positions: instr line"
    yield f"events: {' '.join(COSTS[k] for k in used)}"
    yield f"summary: {_numbers(total, used)}"
    functions = code.function(rows["pc"])
    by_caller: dict[int, list[Call]] = {}
    for call in calls.costs:
        by_caller.setdefault(call[0], []).append(call)
    names = _Names(code)
    for number in dict.fromkeys(functions.tolist()):
        yield ""
        yield from names.function("fn", number)
        for row, cost in zip(rows[functions == number], costs[functions == number], strict=True):
            pc = int(row["pc"])
            file, line = names.line(pc)
            yield from file
            yield f"0x{pc:x} {line} {_numbers(cost, used)}"
            for call in by_caller.pop(pc, ()):
                count, cost = calls.costs[call]
                yield from names.function("cfn", call[1])
                yield f"calls={count} 0x{names.start(call[1]):x} 0"
                yield f"0x{pc:x} {line} {_numbers(cost, used)}"


def _numbers(costs: np.ndarray, used: list[int]) -> str:
    return " ".join(str(int(costs[k])) for k in used)


class _Names:
    """Names of functions and files, with the numbers that stand for them once they were named."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.starts = {name: start for start, _, name in reversed(code.trace.symbols)}
        self.files: dict[str, int] = {}
        self.functions: set[int] = set()
        self.file = ""  # that the next lines belong to

    def start(self, function: int) -> int:
        """The address of a function; 0 for code without a symbol."""
        return self.starts.get(self.code.functions[function], 0)

    def function(self, kind: str, number: int) -> Iterator[str]:
        """What begins a function ("fn"), or stands before a call of one ("cfn")."""
        file, _ = self._source(self.start(number))
        yield self._named("fl" if kind == "fn" else "cfi", file)
        if kind == "fn":
            self.file = file
        name = one_line(self.code.functions[number]) or "(no symbol)"
        text = f" {name}" if number not in self.functions else ""
        self.functions.add(number)
        yield f"{kind}=({number + 1}){text}"

    def line(self, pc: int) -> tuple[list[str], int]:
        """What stands before a line of another file than the last one, and the line's number."""
        file, line = self._source(pc)
        if file == self.file:
            return [], line
        self.file = file
        return [self._named("fi", file)], line

    def _source(self, pc: int) -> tuple[str, int]:
        file, _, line = self.code.line_name(pc).rpartition(":")
        return (file, int(line)) if line.isdecimal() else ("???", 0)

    def _named(self, kind: str, file: str) -> str:
        is_new = file not in self.files
        number = self.files.setdefault(file, len(self.files) + 1)
        return f"{kind}=({number})" + (f" {one_line(self._place(file))}" if is_new else "")

    def _place(self, file: str) -> str:
        """The absolute path of a source file, if it is found; else its name as the program has it.

        Relative names are those of this project's own files, or as the compiler was given them.
        """
        for folder in (ROOT, self.code.trace.path.parent, Path()):
            if (folder / file).is_file():
                return str((folder / file).resolve())
        return file

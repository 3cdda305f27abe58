"""pulpsim annotate: the program's listing with cycles, stalls and conflicts at each instruction."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from pulpsim.cli.terminal import WIDTH, one_line, short
from pulpsim.trace.aggregates import SUM, grouped, instruction_sums, line_sums
from pulpsim.trace.code import Code
from pulpsim.trace.selection import Selection
from soc.prelude.counters import CAUSES
from soc.trace.reader import Trace

SCHEMA = "pulpsim.annotate/1"
NO_SYMBOL, NO_CODE = "(no symbol)", "(no instruction)"
LINES = 15
"""Rows of the table of source lines; the JSON has them all."""
COUNTS = ("cycles", "issues", "accesses", "conflicts")
HEADING = f"{'cycles':>11} {'%':>5} {'issued':>9} {'conflicts':>9}  "
STALLS = 27  # columns of the causes of stalls
MARKS = " ▁▂▃▄▅▆▇█"
"""In front of an instruction: what it took of what the hottest one did."""
PLACE = len(HEADING) + STALLS + 2  # where addresses and names begin
INSTRUCTION = WIDTH - PLACE - 9


class Annotation:
    """Figures of each instruction in a recording, or a selection of it.

    rows         SUM[n] by pc; outside of the program's code are cycles before a hart's first
    functions    what each took, the most cycles first
    """

    def __init__(self, trace: Trace, selection: Selection | None = None) -> None:
        self.trace = trace
        self.code = Code(trace)
        events = (selection or Selection()).parts(trace)
        self.rows = instruction_sums(trace, events)
        self.names = trace.function_of(self.rows["pc"])
        self.names[self.names == ""] = NO_SYMBOL
        is_code = [trace.word_at(pc) is not None for pc in self.rows["pc"].tolist()]
        self.names[~np.array(is_code, bool)] = NO_CODE
        self.functions = grouped(self.rows, self.names)

    @cached_property
    def total(self) -> np.void:
        """The sum of all: SUM."""
        total = np.zeros(1, SUM)[0]
        for field in SUM.names or ():
            total[field] = self.rows[field].sum(axis=0)
        total["pc"] = 0
        return total

    def to_json(self) -> dict[str, Any]:
        """All of it for programs."""
        return {
            "schema": SCHEMA,
            "program": self.trace.header.get("program"),
            "complete": self.trace.complete,
            "missing": self.trace.gap,
            "total": _counts(self.total),
            "functions": [
                {"name": name, **_counts(row), "instructions": list(self._instructions(name))}
                for name, row in self.functions.items()
            ],
            "lines": [
                {"line": name, **_counts(row)}
                for name, row in line_sums(self.trace, self.rows).items()
                if name
            ],
        }

    def _instructions(self, function: str) -> Iterator[dict[str, Any]]:
        for row in self.rows[self.names == function]:
            pc = int(row["pc"])
            about = {"pc": pc, "text": self.code.text(pc), "line": self.code.line_name(pc)}
            yield about | _counts(row)

    def lines(self, functions: int | None = None) -> Iterator[str]:
        """The report for a person: functions, source lines, then the listing of each function.

        functions    how many are listed at most; None: all
        """
        yield from (line.rstrip() for line in self._lines(functions))

    def _lines(self, functions: int | None) -> Iterator[str]:
        yield from self._heading()
        yield from self._table("function", list(self.functions.items()))
        by_line = [item for item in line_sums(self.trace, self.rows).items() if item[0]]
        if by_line:
            yield ""
            yield from self._table("source line", by_line[:LINES])
            if len(by_line) > LINES:
                yield f"... {len(by_line) - LINES} more: --json has all"
        listed = [name for name in self.functions if name != NO_CODE][:functions]
        for name in listed:
            yield from self._listing(name)

    def _heading(self) -> Iterator[str]:
        total = self.total
        yield one_line(
            f"{self.trace.header.get('program', 'program')}: {total['cycles']:,} cycles of all "
            f"harts, {total['issues']:,} instructions, {total['conflicts']:,} conflicts"
        )
        if self.trace.gap:
            yield one_line(f"not all of the run: {self.trace.gap}")
        if self.trace.header.get("filters"):
            yield one_line(f"recorded: {' '.join(self.trace.header['filters'])}")
        yield ""

    def _table(self, what: str, rows: list[tuple[str, np.void]]) -> Iterator[str]:
        yield f"{HEADING}{'stalls':<{STALLS}}  {what}"
        for name, row in rows:
            yield f"{self._numbers(row)}{_stalls(row):<{STALLS}}  {_end(one_line(name))}"

    def _numbers(self, row: np.void) -> str:
        cycles, issues, conflicts = (int(row[name]) for name in ("cycles", "issues", "conflicts"))
        share = 100 * cycles / max(int(self.total["cycles"]), 1)
        percent = f"{share:.1f}" if share >= 0.05 else ""
        lost = f"{conflicts:,}" if conflicts else ""
        return f"{cycles:>11,} {percent:>5} {issues:>9,} {lost:>9}  "

    def _mark(self, row: np.void) -> str:
        """Return a bar as high as the row's cycles, rounded up."""
        return MARKS[-(-int(row["cycles"]) * (len(MARKS) - 1) // self._hottest)]

    @cached_property
    def _hottest(self) -> int:
        """Cycles of the instruction that took the most."""
        return max(int(self.rows["cycles"][self.names != NO_CODE].max(initial=0)), 1)

    def _listing(self, function: str) -> Iterator[str]:
        """The instructions of a function in order; what never ran between them in one line."""
        rows = self.rows[self.names == function]
        yield ""
        yield one_line(f"{function}: {self.functions[function]['cycles']:,} cycles")
        yield f"{HEADING}{'stalls':<{STALLS}}  {'address':8} instruction"
        lines = self.trace.line_of(rows["pc"]).tolist()
        after = int(rows[0]["pc"])
        for place, row in enumerate(rows):
            pc = int(row["pc"])
            yield from self._never_ran(after, pc)
            if lines[place] and (not place or lines[place] != lines[place - 1] or after < pc):
                yield f"{'':{PLACE}}{_end(one_line(lines[place]))}"
            text = one_line(self.code.text(pc))
            text = text if len(text) <= INSTRUCTION else text[: INSTRUCTION - 1] + "…"
            causes = f"{_stalls(row):<{STALLS}}{self._mark(row)}"
            yield f"{self._numbers(row)}{causes} {pc:08x} {text}"
            after = pc + self.code.size(pc)

    def _never_ran(self, start: int, end: int) -> Iterator[str]:
        count, pc = 0, start
        while pc < end and self.code.size(pc):
            count, pc = count + 1, pc + self.code.size(pc)
        if count:
            yield f"{'':{PLACE}}{start:08x} {count} not reached"


def _counts(row: np.void) -> dict[str, Any]:
    stalls = {name: int(n) for name, n in zip(CAUSES, row["stalls"], strict=True) if n}
    return {name: int(row[name]) for name in COUNTS} | {"stalls": stalls}


def _stalls(row: np.void) -> str:
    """Format the largest causes that fit, most cycles first, and an ellipsis for the others."""
    found = [(int(n), name) for name, n in zip(CAUSES, row["stalls"], strict=True) if n]
    causes = [f"{name} {short(count)}" for count, name in sorted(found, reverse=True)]
    lines = [", ".join(causes)]
    lines += [f"{', '.join(causes[:kept])} …" for kept in range(len(causes) - 1, 0, -1)]
    return next((line for line in lines if len(line) < STALLS), lines[-1])


def _end(name: str) -> str:
    """Return the end of a long name: a file's name and line are there."""
    room = WIDTH - PLACE
    return name if len(name) <= room else "…" + name[len(name) - room + 1 :]

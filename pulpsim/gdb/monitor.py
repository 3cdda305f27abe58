"""`monitor`: what a person at GDB asks of the simulator itself."""

from collections.abc import Callable
from inspect import signature
from pathlib import Path

from pulpsim.gdb.points import Points
from soc.config.toml import ConfigError
from soc.debug.cursor import Cursor
from soc.debug.session import Session
from soc.debug.whereabouts import name_of, whereabouts_now
from soc.prelude.counters import CAUSES, COUNT, COUNTS, REGIONS

MOVED = "GDB shows this after: maintenance flush register-cache"
CLOCK = """\
All harts have one clock: while one is stepped the others go on for as long, also with
scheduler-locking. That only keeps their breakpoints from stopping the step.
"""


class Monitor:
    """The commands, each with a line of help: its docstring's first.

    names    cycles that have names
    """

    def __init__(self, cursor: Cursor, points: Points):
        self.cursor, self.points = cursor, points
        self.names: dict[str, int] = {}
        self._traced_from: int | None = None
        self.commands: dict[str, Callable[..., str]] = {
            "barrier": self.barrier,
            "checkpoint": self.checkpoint,
            "cycle": self.cycle,
            "goto": self.goto,
            "help": self.help,
            "icount": self.icount,
            "regions": self.regions,
            "reset": self.reset,
            "stalls": self.stalls,
            "trace": self.trace,
            "where": self.where,
        }

    @property
    def session(self) -> Session:
        """The run."""
        return self.cursor.session

    def answer(self, line: str) -> str:
        """What a command says; of one that there is not, which there are."""
        words = line.split()
        found = [name for name in self.commands if words and name.startswith(words[0])]
        if len(found) != 1 and (not words or words[0] not in self.commands):
            return (f"there is no command {words[0]!r}\n" if words else "") + self.help()
        command = self.commands[words[0] if words[0] in self.commands else found[0]]
        try:
            signature(command).bind(*words[1:])
        except TypeError:
            return f"{_usage(command)}\n"
        try:
            return command(*words[1:])
        except (ValueError, OSError, ConfigError) as error:
            return f"{error}\n"

    def help(self) -> str:
        """help: this list."""
        return "".join(f"monitor {_usage(command)}\n" for command in self.commands.values()) + CLOCK

    def cycle(self) -> str:
        """cycle: the cycle here, and the last that was simulated."""
        return f"cycle {self.session.cycle}; simulated up to {self.session.latest}\n"

    def goto(self, place: str) -> str:
        """goto CYCLE or NAME: be at the start of this cycle, before or after this one."""
        known = self.names.get(place)
        try:
            cycle = int(place.replace(",", ""), 0) if known is None else known
        except ValueError:
            raise ValueError(f"{place!r} is no cycle, and no name of one") from None
        self.cursor.go_to(cycle)
        end = ": the program has ended" if self.session.cycle < cycle else ""
        return f"cycle {self.session.cycle}{end}. {MOVED}\n"

    def checkpoint(self, name: str = "", file: str = "") -> str:
        """checkpoint [NAME [FILE]]: name this cycle, keep it in a file; without: list the names."""
        if name:
            self.names[name] = self.session.cycle
        if file:
            self.session.save(Path(file))
            return f"cycle {self.session.cycle} is {name}, and in {file}\n"
        return "".join(f"{known}: cycle {cycle}\n" for known, cycle in self.names.items())

    def reset(self) -> str:
        """reset: be at the start, and forget what was changed by hand."""
        self.session.forget_edits()
        self.cursor.go_to(0)
        return f"cycle 0. {MOVED}\n"

    def barrier(self) -> str:
        """barrier: go on to the cycle in which the next barrier is complete."""
        before = set(self.session.breakpoints)
        self.session.breakpoints.clear()
        stop = self.session.go_on(to_barrier=True)
        self.session.breakpoints |= before
        self.cursor.go_to(self.session.cycle)
        what = "a barrier is complete" if stop else "the program has ended"
        return f"cycle {self.session.cycle}: {what}. {MOVED}\n"

    def icount(self) -> str:
        """icount: instructions of each hart up to here."""
        counts = self.session.chip.harts["counts"][:, COUNT.instructions]
        return "".join(f"{self._name(h)}: {count}\n" for h, count in enumerate(counts))

    def stalls(self) -> str:
        """stalls: cycles that each hart has waited, by cause."""
        counts = self.session.chip.harts["counts"]
        rows = [["", *(self._name(h) for h in range(len(counts)))]]
        for name in CAUSES:
            cycles = counts[:, COUNTS.index(name)]
            if cycles.any():
                rows.append([name, *(f"{each:,}" if each else "" for each in cycles.tolist())])
        if len(rows) == 1:
            return "no hart has waited\n"
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def regions(self) -> str:
        """regions: those that harts have measured, with times and cycles."""
        lines = []
        for place, region in enumerate(self.session.chip.regions):
            if region["count"]:
                hart, number = divmod(place, REGIONS)
                times = f"{int(region['count'])} times, {int(region['cycles'])} cycles"
                lines.append(f"{self._name(hart)}, region {number}: {times}\n")
        return "".join(lines) or "no region has ended\n"

    def where(self) -> str:
        """where: function, callers and state of each hart."""
        session, end = self.session, self.session.end
        at_fault = end.hart if end else None
        found = whereabouts_now(session.chip, session.spec, session.program, at_fault)
        return "".join(f"{one.text}\n" for one in found)

    def trace(self, what: str, file: str = "run.trace") -> str:
        """trace on | trace off [FILE]: record the cycles from on to off, for pulpsim trace."""
        if what == "on":
            self._traced_from = self.session.cycle
            return f"from cycle {self.session.cycle} on\n"
        if what != "off" or self._traced_from is None:
            return f"{_usage(self.trace)}; it is {'off' if self._traced_from is None else 'on'}\n"
        first, end = sorted((self._traced_from, self.session.cycle))
        if first == end:
            return f"no cycle has passed since `trace on`, in cycle {first}; it is still on\n"
        self._traced_from = None
        events = self.session.record(Path(file), first, end)
        return f"{events} events of cycles {first} to {end} in {file}\n"

    def _name(self, h: int) -> str:
        return name_of(self.session.chip, h)


def _usage(command: Callable) -> str:
    return (command.__doc__ or "").partition("\n")[0]

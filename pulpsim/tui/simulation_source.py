"""The live view's source that is a simulation."""

from collections.abc import Callable
from functools import cached_property
from time import perf_counter

import numpy as np

from pulpsim.tui.listing import Listing, listing_of
from pulpsim.tui.samples import Samples, sample_of
from pulpsim.tui.source import Bins, HartNow, RegionNow, Stopped
from soc.debug.session import WINDOW, Session
from soc.event_unit import offsets as at
from soc.prelude import hart_state as status
from soc.prelude.counters import COUNT, REGIONS
from soc.prelude.wheel import NEVER
from soc.result import RunResult

DOING = {
    status.SLEEP: "asleep",
    status.WFI: "wfi",
    status.OFF: "off",
    status.FETCHING: "fetches",
    status.L1_REQUEST: "at L1",
    status.REQUEST: "asks",
    status.ACCESS: "at L2",
    status.WAIT: "waits",
    status.STOPPED: "stopped",
}

CONSOLE = 1 << 16
"""Characters that the view keeps of what the program prints."""


class RunSource:
    """A session with its samples."""

    def __init__(self, session: Session, title: str):
        self.session, self.title = session, title
        self.names = [
            "fc" if hart["external"] else f"core{h}" for h, hart in enumerate(session.chip.harts)
        ]
        self.state = self
        self.banks = session.chip.banks.size
        self.breakpoints = session.breakpoints
        self.samples = Samples(session.chip)
        self.console = ""
        self._sample()

    @cached_property
    def code(self) -> Listing:
        return listing_of(self.session.program, self.session.isa)

    def print(self, text: str) -> None:
        """Take what the program prints."""
        self.console = (self.console + text)[-CONSOLE:]

    @property
    def grain(self) -> int:
        return self.samples.grain

    @property
    def cycle(self) -> int:
        return self.session.cycle

    @property
    def latest(self) -> int:
        return self.session.latest

    @property
    def culprit(self) -> int | None:
        return self.session.end.hart if self.session.end else None

    @property
    def is_over(self) -> bool:
        return self.session.end is not None

    @property
    def end(self) -> str:
        end = self.session.end
        if end is None:
            return ""
        return end.message or f"exit: the program returned {end.code}"

    @property
    def instructions(self) -> int:
        return int(self.session.chip.harts["counts"][:, COUNT.instructions].sum())

    def run(self, seconds: float, end: int, to_barrier: bool = False) -> Stopped | None:
        late = perf_counter() + seconds
        while not self.is_over and self.cycle < end:
            grain = max(self.grain, WINDOW) if self.breakpoints or to_barrier else self.grain
            target = min(end, (self.cycle // grain + 1) * grain)
            stop = self.session.go_on(target, to_barrier=to_barrier)
            self._sample()
            if stop:
                places = sorted({self._place(h) for h in stop.harts})
                names = ", ".join(self.names[h] for h in stop.harts)
                if not stop.harts:
                    return Stopped("a barrier is complete")
                what = f"{stop.reason}: {names} at {', '.join(places)}"
                return Stopped(what, tuple(stop.harts))
            if perf_counter() > late:
                break
        return None

    def go_to(self, cycle: int) -> None:
        self.session.go_to(cycle)
        self._sample()

    def step_instruction(self, hart: int, within: int) -> bool:
        done = self.session.step_instruction(hart, within)
        self._sample()
        return done

    def bins(self, edges: np.ndarray) -> Bins:
        return self.samples.bins(edges)

    def refine(self, edges: np.ndarray, is_wanted: Callable[[], bool]) -> bool:
        missing = self.samples.missing([e for e in edges.tolist() if e <= self.latest])
        here = NEVER if self.is_over else self.cycle
        for cycle in missing:
            if not is_wanted():
                break
            self.session.go_to(cycle)
            self._sample()
        else:
            missing = []
        self.session.go_to(here)
        return not missing

    def harts(self) -> list[HartNow]:
        unit = self.session.chip.event_unit[0]
        found = []
        for h, hart in enumerate(self.session.chip.harts):
            pc = int(hart["pc"])
            symbol = self.session.program.symbol_at(pc)
            what = DOING.get(int(hart["state"]), "runs")
            if what == "asleep" and int(unit["offset"][h]) >= at.BARRIER:
                what = "barrier"
            function = symbol.name if symbol else ""
            found.append(HartNow(self.names[h], pc, function, self._place(h), what))
        return found

    def regions(self) -> list[RegionNow]:
        table = self.session.chip.regions
        numbers = np.flatnonzero((table["count"] > 0) | (table["open"] > 0))
        found = []
        for number in sorted({int(n) % REGIONS for n in numbers}):
            of_harts = table[number::REGIONS]
            seen = (of_harts["count"] > 0) | (of_harts["open"] > 0)
            going = of_harts["open"] * (self.cycle - of_harts["start"])
            done = of_harts["total"][:, COUNT.instructions]
            now = self.session.chip.harts["counts"] - of_harts["at_start"]
            begun = of_harts["open"] * now[:, COUNT.instructions]
            found.append(
                RegionNow(
                    self.session.program.regions.get(number, f"region {number}"),
                    int(seen.sum()),
                    int(of_harts["count"].sum()),
                    int((of_harts["cycles"] + going).max()),
                    int((done + begun).sum()),
                    bool(of_harts["open"].any()),
                )
            )
        return found

    def registers(self, hart: int) -> dict[str, int]:
        return self.session.registers(hart)

    def read(self, address: int, size: int) -> bytes:
        return self.session.read(address, size)

    def address_of(self, place: str) -> int:
        return self.session.address_of(place)

    def memory_address(self, place: str) -> int:
        return self.session.address_of(place, is_code=False)

    def place(self, address: int) -> str:
        return self.session.program.place(address)

    def result(self) -> RunResult:
        """What the run leaves where it stands."""
        return self.session.result()

    def _sample(self) -> None:
        if self.cycle not in self.samples:
            self.samples.add(self.cycle, sample_of(self.session.chip, self.cycle))

    def _place(self, h: int) -> str:
        return self.session.program.place(int(self.session.chip.harts[h]["pc"]))

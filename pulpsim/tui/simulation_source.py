"""The live view's source that is a simulation."""

from collections.abc import Mapping
from time import perf_counter

import numpy as np

from isa.disasm import disassemble
from pulpsim.live.listing import addresses_around
from pulpsim.live.samples import Samples, sample_of
from pulpsim.live.source import Bins, HartNow, RegionNow
from soc import event_unit_offsets as at
from soc import hart_status as status
from soc.result import RunResult
from soc.session import WINDOW, Session
from soc.state import COUNT, NEVER, REGIONS

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

CONSOLE = 4096
"""Characters that the view keeps of what the program prints."""


class RunSource:
    """A session with its samples."""

    def __init__(self, session: Session, title: str, region_names: Mapping[int, str]):
        self.session, self.title, self.region_names = session, title, region_names
        self.names = [
            "fc" if hart["external"] else f"core{h}" for h, hart in enumerate(session.chip.harts)
        ]
        self.state = self
        self.banks = session.chip.banks.size
        self.breakpoints = session.breakpoints
        self.samples = Samples(session.chip)
        self.console = ""
        self._sample()

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

    def run(self, seconds: float, end: int, to_barrier: bool = False) -> str:
        late = perf_counter() + seconds
        while not self.is_over and self.cycle < end:
            grain = max(self.grain, WINDOW) if self.breakpoints or to_barrier else self.grain
            target = min(end, (self.cycle // grain + 1) * grain)
            stop = self.session.go_on(target, to_barrier=to_barrier)
            self._sample()
            if stop:
                places = sorted({self._place(h) for h in stop.harts})
                names = ", ".join(self.names[h] for h in stop.harts)
                what = f"{names} at {', '.join(places)}" if stop.harts else "a barrier is complete"
                return f"{stop.reason}: {what}" if stop.harts else what
            if perf_counter() > late:
                break
        return ""

    def go_to(self, cycle: int) -> None:
        self.session.go_to(cycle)
        self._sample()

    def step_instruction(self, hart: int, within: int) -> bool:
        done = self.session.step_instruction(hart, within)
        self._sample()
        return done

    def bins(self, edges: np.ndarray) -> Bins:
        return self.samples.bins(edges)

    def refine(self, edges: np.ndarray) -> None:
        missing = self.samples.missing([e for e in edges.tolist() if e <= self.latest])
        if not missing:
            return
        here = NEVER if self.is_over else self.cycle
        for cycle in missing:
            self.session.go_to(cycle)
            self._sample()
        self.session.go_to(here)

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
            source = self.session.program.lines.at(pc)
            line = f"{source[0]}:{source[1]}" if source else ""
            found.append(
                HartNow(self.names[h], pc, function, self._place(h), self._text(pc), line, what)
            )
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
                    self.region_names.get(number, f"region {number}"),
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

    def listing(self, hart: int, lines: int) -> list[tuple[int, str]]:
        pc = int(self.session.chip.harts[hart]["pc"])
        symbol = self.session.program.symbol_at(pc)
        start = max(symbol.address if symbol else pc, pc - 1024)
        addresses = addresses_around(pc, start, self._size, lines)
        return [(address, self._text(address)) for address in addresses]

    def _size(self, address: int) -> int:
        return 4 if self._word(address) & 3 == 3 else 2

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

    def _word(self, pc: int) -> int:
        try:
            return int.from_bytes(self.session.read(pc, 4), "little")
        except ValueError:
            return 0

    def _text(self, pc: int) -> str:
        word = self._word(pc)
        if not word:
            return ""
        word = word if word & 3 == 3 else word & 0xFFFF
        return disassemble(word, self.session.isa, pc)

"""The instruction cache cycle by cycle: the state machines of the RTL, one step per clock.

The slow definition that soc/icache/prefetch_buffer.py and soc/icache/hierarchy.py are compared
with. Programs and harts as in fetch_bench.py. In a cycle the caches show what they hold, the harts
and prefetch buffers react, the shared banks choose, then all registers change.

Sources: riscv_prefetch_buffer.sv, riscv_fetch_fifo.sv, riscv_if_stage.sv; pri_icache_controller.sv,
refill_arbiter.sv, share_icache_controller.sv, share_icache.sv, icache_hier_top.sv.
"""

from collections import deque

import numpy as np

from tests.soc.icache.fetch_bench import BASE, BRANCH, JUMP, MARKS, ROW, STOP


def next_lfsr(state: int) -> int:
    taps = sum(state >> k & 1 for k in (7, 3, 2, 1))
    return (2 * state + (taps + 1) % 2) % 256


BEHIND = np.zeros(1, ROW)[0]
BEHIND["size"] = 4
BEHIND["cost"] = 1
"""What lies after a program; fetched, never executed."""


class Instruction:
    """A row on its way through a hart."""

    def __init__(self, row: np.void, pc: int):
        self.pc = pc
        self.kind, self.size, self.cost = int(row["kind"]), int(row["size"]), int(row["cost"])
        self.target, self.every, self.loop = int(row["target"]), int(row["every"]), int(row["loop"])
        self.mark = bool(row["mark"])
        self.left = self.cost
        self.jumped = False
        self.taken = False


class Hart:
    """IF, ID and EX, the prefetch buffer, the private cache."""

    def __init__(self, index: int, program: np.ndarray, sets: int, ways: int, enabled: bool):
        self.index = index
        self.program = program
        self.times = [0] * len(program)
        self.decode: Instruction | None = None
        self.execute: Instruction | None = None
        self.marks: list[int] = []
        self.stopped = False
        # prefetch buffer: words in the queue, pc at its output, address of the last request
        self.state = "idle"
        self.queue: list[int] = []
        self.output = 0
        self.asked = 0
        self.last_of_loop: int | None = None  # pc whose loop jump is done or under way
        self.target_comes = False  # what comes next is a loop's start: it replaces what is queued
        # private cache
        self.sets, self.ways, self.enabled = sets, ways, enabled
        self.cache = "idle"
        self.lines: list[list[int | None]] = [[None] * ways for _ in range(sets)]
        self.lfsr = 0
        self.fetched = 0
        self.victim = 0
        self.answer = False  # a line comes from the shared banks in this cycle
        self.line_requested = False

    def row(self, pc: int) -> np.void:
        index = (pc - BASE) >> 1
        return self.program[index] if index < len(self.program) else BEHIND

    @property
    def line(self) -> int:
        return self.fetched >> 4

    def show(self) -> None:
        """What the private cache shows in this cycle."""
        in_set = self.lines[self.line % self.sets]
        self.miss = self.cache == "lookup" and self.line not in in_set
        self.valid = (self.cache == "lookup" and not self.miss) or (
            self.cache in ("wait", "past wait") and self.answer
        )
        self.grants = self.cache in ("idle", "lookup") or (
            self.cache == "past wait" and self.answer
        )
        self.line_requested = self.miss or self.cache in ("ask", "past ask")

    def redirect(self, cycle: int) -> int | None:
        """The address that a jump or taken branch asks for in this cycle."""
        if cycle == 1:
            return BASE
        if self.execute is not None and self.execute.taken:
            return self.execute.target
        if self.decode is not None and self.decode.kind == JUMP and not self.decode.jumped:
            self.decode.jumped = True
            return self.decode.target
        return None

    def step(self, cycle: int) -> None:
        """Everything but the shared banks' grant."""
        ready = self.execute is None or self.execute.left == 1
        jump = self.redirect(cycle)
        has_room = len(self.queue) < 3
        words = list(self.queue)
        is_stored = self._output(words) is not None
        loop = self._loop_jump() if jump is None else None
        loops = False
        request: int | None = None
        following = (self.asked & ~3) + 4
        if self.state == "idle":
            if jump is not None:
                request = jump
            elif loop is not None and is_stored:
                request, loops = loop, True
            elif has_room and cycle > 1:
                request = following
        elif self.state == "grant":
            request = self.asked if jump is None else jump
            if loop is not None and is_stored:
                request, loops = loop, True
        elif self.state == "valid":
            if self.valid:
                if self.target_comes:
                    del words[1:]
                    self.target_comes = False
                words.append(self.asked)
                if jump is not None:
                    request = jump
                elif loop is not None:
                    request, loops = loop, True
                elif has_room:
                    request = following
                if request is None:
                    self.state = "idle"
            elif jump is not None:
                self.asked = jump
                self.state = "aborted"
            elif loop is not None and is_stored:
                self.asked = loop
                self.state = "aborted"
                loops = True
        elif self.state == "aborted":
            if jump is not None:
                self.asked = jump
            if self.valid:
                request = self.asked
        instruction = self._output(words)
        handed = instruction is not None and jump is None and ready
        if loops:
            self.last_of_loop = self.output
            self.target_comes = True
        granted = request is not None and self.grants
        if request is not None:
            self.asked = request
            self.state = "valid" if granted else "grant"
        self._cache_step(granted)
        self._advance(cycle, ready)
        if jump is not None:
            words = []
            self.output = jump
            self.last_of_loop = None
            self.target_comes = False
        elif handed:
            assert instruction is not None
            self._hand_over(instruction, words)
        self.queue = words

    def _loop_jump(self) -> int | None:
        """Where the instruction at the queue's output goes back to, if that is still to do."""
        if self.output == 0 or self.last_of_loop is not None:
            return None
        row = self.row(self.output)
        index = (self.output - BASE) >> 1
        waiting = self.decode is not None and self.decode.pc == self.output
        if self.times[index] + 1 + waiting < row["loop"]:
            return int(row["target"])
        return None

    def _output(self, words: list[int]) -> Instruction | None:
        """The instruction at the queue's output, if all of it is there."""
        if not words:
            return None
        row = self.row(self.output)
        is_split = self.output & 2 and row["size"] == 4
        needed = 2 if is_split and self.last_of_loop != self.output else 1
        return Instruction(row, self.output) if len(words) >= needed else None

    def _hand_over(self, instruction: Instruction, words: list[int]) -> None:
        self.decode = instruction
        end = self.output + instruction.size
        goes_back = self.last_of_loop == instruction.pc
        if goes_back or end >> 2 != self.output >> 2:
            words.pop(0)
        self.output = end
        if goes_back:
            if self.target_comes:
                words.clear()
            self.output = instruction.target
            self.last_of_loop = None

    def _advance(self, cycle: int, ready: bool) -> None:
        """ID to EX."""
        if self.execute is not None and self.execute.taken:
            self.execute = self.decode = None
            return
        if not ready:
            assert self.execute is not None
            self.execute.left -= 1
            return
        self.execute, self.decode = self.decode, None
        issued = self.execute
        if issued is None:
            return
        index = (issued.pc - BASE) >> 1
        self.times[index] += 1
        if issued.mark and not self.stopped and len(self.marks) < MARKS:
            self.marks.append(cycle)
        if issued.kind == STOP:
            self.stopped = True
        if issued.loop:
            self.times[index] %= issued.loop
        if issued.kind == BRANCH:
            last = self.times[index] == abs(issued.every)
            issued.taken = last == (issued.every > 0)
            self.times[index] *= not last

    def _cache_step(self, granted: bool) -> None:
        """The private cache's next state, without the shared banks' grant."""
        if self.miss:
            in_set = self.lines[self.line % self.sets]
            invalid = [way for way in range(self.ways) if in_set[way] is None]
            if invalid:
                self.victim = invalid[-1]
            else:
                self.victim = self.lfsr % self.ways
                self.lfsr = next_lfsr(self.lfsr)
            self.cache = "ask"
        elif self.cache == "wait" and self.answer:
            self.lines[self.line % self.sets][self.victim] = self.line
            self.cache = "idle"
        elif self.cache == "past wait" and self.answer or self.cache == "lookup":
            self.cache = "idle"
        self.answer = False
        if granted and self.cache == "idle":
            self.fetched = self.asked
            self.cache = "lookup" if self.enabled else "past ask"

    def line_granted(self) -> None:
        self.cache = "past wait" if self.cache == "past ask" else "wait"


class Bank:
    """A shared bank's state machine, refills, address buffer."""

    def __init__(self, number: int, banks: int, sets: int, ways: int, refills: int, enabled: bool):
        self.number, self.banks, self.sets, self.ways = number, banks, sets, ways
        self.depth = refills
        self.state = "operate" if enabled else "disabled"
        self.lines: list[list[int | None]] = [[None] * ways for _ in range(sets)]
        self.lfsr = 0
        self.rr = 0
        self.held: tuple[Hart, int] | None = None
        self.refills: deque[tuple[Hart, int, int]] = deque()
        self.addresses: deque[int] = deque()
        self.arrived = False

    def set_of(self, line: int) -> list[int | None]:
        return self.lines[line // self.banks % self.sets]

    def choose(self, asking: list[Hart], harts: int) -> Hart | None:
        """Grant one request."""
        if not asking:
            return None
        winner = min(asking, key=lambda hart: hart.index ^ self.rr)
        ports = 1 << (harts - 1).bit_length()
        self.rr = (self.rr + 1) % ports
        winner.line_granted()
        return winner

    def step(self, asking: list[Hart], harts: int) -> tuple[Hart | None, int | None, bool]:
        """Returns who is answered, the line to ask for, and whether the line buffer is emptied."""
        held = self.held
        under_way = held is not None and any(line == held[1] for _, line, _ in self.refills)
        hit = held is not None and held[1] in self.set_of(held[1])
        room = len(self.refills) < self.depth and len(self.addresses) < 2
        match self.state:
            case "operate":
                return self._operate(asking, harts, under_way, hit)
            case "fill" | "merge fill" | "missed fill":
                hart, line, way = self.refills.popleft()
                self.set_of(line)[way] = line
                self.state = {"fill": "operate", "merge fill": "look", "missed fill": "missed"}[
                    self.state
                ]
                return hart, None, True
            case "merge" if self.arrived:
                self.state = "merge fill"
            case "look":
                self.state = "merge" if under_way else "hit"
            case "hit":
                assert held is not None
                self.held, self.state = None, "operate"
                return held[0], None, False
            case "missed" if self.arrived:
                self.state = "missed fill"
            case "missed" if room:
                assert held is not None
                self.refills.append((*held, self.lfsr % self.ways))
                self.lfsr = next_lfsr(self.lfsr)
                self.held, self.state = None, "operate"
                return None, held[1], False
            case "disabled":
                winner = self.choose(asking, harts) if room else None
                if winner is not None:
                    self.refills.append((winner, winner.line, 0))
                answered = self.refills.popleft()[0] if self.arrived else None
                return answered, winner.line if winner is not None else None, self.arrived
        return None, None, False

    def _operate(
        self, asking: list[Hart], harts: int, under_way: bool, hit: bool
    ) -> tuple[Hart | None, int | None, bool]:
        held = self.held
        answered = held[0] if held is not None and hit else None
        if self.arrived:
            if under_way:
                self.state = "merge fill"
                return None, None, False
            self.state = "fill"
            if hit:
                self.held = None
        elif held is not None and not hit:
            self.state = "merge" if under_way else "missed"
        else:
            winner = self.choose(asking, harts)
            self.held = None if winner is None else (winner, winner.line)
        return answered, None, False


class Cluster:
    """Harts, banks and the AXI port, whose reads take `latency` to the first of two beats."""

    def __init__(
        self, programs: list[np.ndarray], latency: int, banks: int = 2, enabled: bool = True
    ):
        self.latency = latency
        self.harts = [Hart(h, code, 8, 4, enabled) for h, code in enumerate(programs)]
        self.banks = [Bank(b, banks, 64 // banks, 4, 4, enabled) for b in range(banks)]
        self.address_turn = 0
        self.beats: deque[tuple[int, Bank, bool]] = deque()  # cycle, for whom, last

    def run(self, cycles: int = 200_000) -> list[list[int]]:
        """Run until all have stopped; returns the marks of each hart."""
        for cycle in range(1, cycles):
            self.step(cycle)
            if all(hart.stopped for hart in self.harts):
                return [hart.marks for hart in self.harts]
        raise AssertionError("the harts have not stopped")

    def step(self, cycle: int) -> None:
        for hart in self.harts:
            hart.show()
        asking = [hart for hart in self.harts if hart.line_requested]
        for hart in self.harts:
            hart.step(cycle)
        results = [
            bank.step(
                [hart for hart in asking if hart.line % bank.banks == bank.number],
                len(self.harts),
            )
            for bank in self.banks
        ]
        self._send_address(cycle)
        self._receive_beat(cycle)
        for bank, (answered, line, emptied) in zip(self.banks, results, strict=True):
            if line is not None:
                bank.addresses.append(line)
            if emptied:
                bank.arrived = False
            if answered is not None:
                answered.answer = True

    def _send_address(self, cycle: int) -> None:
        ready = [bank.number for bank in self.banks if bank.addresses]
        if not ready:
            return
        chosen = min(ready, key=lambda number: number ^ self.address_turn)
        later = [number for number in ready if number > self.address_turn]
        self.address_turn = min(later or ready)
        bank = self.banks[chosen]
        bank.addresses.popleft()
        free = self.beats[-1][0] + 1 if self.beats else 0
        first = max(cycle + self.latency, free)
        self.beats += [(first, bank, False), (first + 1, bank, True)]

    def _receive_beat(self, cycle: int) -> None:
        if not self.beats or self.beats[0][0] > cycle or self.beats[0][1].arrived:
            return
        _, bank, last = self.beats.popleft()
        bank.arrived = last

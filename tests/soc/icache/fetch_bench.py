"""Harts that do nothing but issue, on the instruction cache's step functions.

A program is an array of ROW, one per half-word from BASE on. A hart issues in order: an instruction
that was handed over in cycle a is decoded in a + 1 and issues when EX has finished the one before
it; a jump asks for its target in its first cycle in the decode stage, a taken branch one cycle
after its issue.
"""

import gzip
import json
from pathlib import Path

import numpy as np

from isa.extensions.profiles import profile
from soc.cluster.icache_access import icache_state
from soc.icache.hierarchy import IcacheSpec, icache_note, icache_step
from soc.icache.prefetch_buffer import fetch_jump, fetch_loop, fetch_next
from soc.interconnect.axi_l2 import L2Spec, l2_state
from soc.prelude.step import step
from soc.prelude.wheel import NEVER

BASE = 0x1C000000
PLAIN, JUMP, BRANCH, STOP = range(4)
MARKS = 4096

ROW = np.dtype(
    [
        ("kind", "i8"),
        ("size", "i8"),  # bytes
        ("cost", "i8"),  # cycles in EX
        ("target", "i8"),  # of a jump, a branch, a hardware loop that ends here
        ("every", "i8"),  # BRANCH: taken at every so-manieth time; negative: at all but these
        ("loop", "i8"),  # passes of the hardware loop that ends here, or 0
        ("mark", "i8"),  # its issue cycle is noted
    ]
)

HART = np.dtype(
    [
        ("pc", "i8"),
        ("pc_next", "i8"),  # after the last instruction of a hardware loop
        ("given", "i8"),  # cycle of its hand-over, or NEVER
        ("ideal", "i8"),  # first cycle in which it could be handed over
        ("free", "i8"),  # first cycle in which EX can take it
        ("resume", "i8"),
        ("stopped", "i8"),
        ("issued", "i8"),
        ("marks", "i8"),
        ("mark", "i8", (MARKS,)),
    ]
)


@step
def is_taken(row, times, index):
    """Does the jump or branch that has just issued go to its target?"""
    if row["kind"] != BRANCH:
        return row["kind"] == JUMP
    times[index] += 1
    last = times[index] == abs(row["every"])
    if last:
        times[index] = 0
    return last == (row["every"] > 0)


@step
def at_output(fetch, code, times, pc, cycle):
    """The instruction at pc comes to the queue's output: a hardware loop may go back after it."""
    if goes_back(code, times, pc):
        row = code[(pc - BASE) >> 1]
        fetch_loop(fetch, pc, pc & 2 != 0 and row["size"] == 4, row["target"], cycle)


@step
def jump(fetch, code, times, target, cycle):
    """Ask for a target, which may be the end of a hardware loop that goes back."""
    back = code[(target - BASE) >> 1]["target"] if goes_back(code, times, target) else -1
    fetch_jump(fetch, target, back, cycle)


@step
def goes_back(code, times, pc):
    """Does the instruction at pc, the next one to be handed over, end a loop that goes back?"""
    index = (pc - BASE) >> 1
    return times[index] + 1 < code[index]["loop"]


@step
def hand_over(hart, fetch, code, times):
    """Hand the next instruction over, if it has come."""
    pc = hart["pc"]
    row = code[(pc - BASE) >> 1]
    turns = row["kind"] == JUMP
    turns |= row["loop"] == 0 and goes_back(code, times, pc + row["size"])
    hart["given"] = fetch_next(fetch, pc, row["size"], hart["ideal"], hart["free"], turns)
    if hart["given"] == NEVER:
        return
    if row["kind"] == JUMP:
        jump(fetch, code, times, row["target"], hart["given"] + 1)
    elif row["loop"]:
        index = (pc - BASE) >> 1
        times[index] = (times[index] + 1) % row["loop"]
        hart["pc_next"] = row["target"] if times[index] else pc + row["size"]
        at_output(fetch, code, times, hart["pc_next"], hart["given"] + 1)
    else:
        at_output(fetch, code, times, pc + row["size"], hart["given"] + 1)


@step
def advance(hart, fetch, code, times, until):
    """Issue instructions in cycles before `until`; returns the cycle to go on in, or NEVER."""
    while True:
        pc = hart["pc"]
        index = (pc - BASE) >> 1
        row = code[index]
        if hart["given"] == NEVER:
            hand_over(hart, fetch, code, times)
            if hart["given"] == NEVER:
                return NEVER
        start = max(hart["given"] + 1, hart["free"])
        if start >= until:
            return start
        decoded = hart["given"] + 1
        hart["issued"] += 1
        hart["given"] = NEVER
        hart["free"] = start + row["cost"]
        hart["ideal"] = start
        hart["pc"] = hart["pc_next"] if row["loop"] else pc + row["size"]
        if row["mark"] and hart["stopped"] == 0 and hart["marks"] < MARKS:
            hart["mark"][hart["marks"]] = start
            hart["marks"] += 1
        if row["kind"] == STOP:
            hart["stopped"] = 1
        if is_taken(row, times, index):
            target = row["target"]
            asked = decoded
            if row["kind"] == BRANCH:
                asked = start + 1
                jump(fetch, code, times, target, asked)
            split = target & 2 != 0 and code[(target - BASE) >> 1]["size"] == 4
            hart["ideal"] = max(asked + 1 + split, start)
            hart["pc"] = target


@step
def run(harts, fetch, icache, l2, code, times, ahead, end):
    """Simulate cycles before `end`, each hart at most `ahead` cycles ahead of the others."""
    for now in range(end):
        busy = False
        for h in range(harts.size):
            busy = busy or harts[h]["stopped"] == 0
            if harts[h]["resume"] <= now:
                until = now + ahead
                harts[h]["resume"] = advance(harts[h], fetch[h], code[h], times[h], until)
                icache_note(icache, fetch[h], h)
        if not busy:
            return now
        if icache["wake"] <= now:
            answered = icache_step(icache, fetch, l2, now)
            for h in range(harts.size):
                if harts[h]["resume"] == NEVER and int(answered) >> h & 1:
                    harts[h]["resume"] = now + 1
    return end


class Bench:
    """A cluster of such harts, all of which start at BASE in cycle 1."""

    def __init__(
        self,
        programs: list[np.ndarray],
        latency: int,
        spec: IcacheSpec | None = None,
        ahead: int = 1000,
    ):
        count = len(programs)
        self.spec = spec or IcacheSpec(enabled=True)
        self.ahead = ahead
        self.icache, self.fetch = icache_state(self.spec, count)
        self.l2 = l2_state(
            L2Spec(
                private_banks=0,
                bank_latency=latency,
                cluster_synchronizer_stages=0,
                soc_synchronizer_stages=0,
            )
        )
        self.harts = np.zeros(count, HART)
        longest = max(len(program) for program in programs)
        self.code = np.zeros((count, longest), ROW)
        for h, program in enumerate(programs):
            self.code[h, : len(program)] = program
        self.times = np.zeros((count, longest), np.int64)
        self.harts["pc"] = BASE
        self.harts["given"] = NEVER
        self.harts["ideal"] = 2
        self.harts["resume"] = 1
        for h, fetch in enumerate(self.fetch):
            fetch_jump(fetch, BASE, -1, 1)
            at_output(fetch, self.code[h], self.times[h], BASE, 2)

    def run(self, cycles: int = 1_000_000) -> list[list[int]]:
        """Run until all have stopped; returns the marks of each hart."""
        end = run(
            self.harts,
            self.fetch,
            self.icache[0],
            self.l2[0],
            self.code,
            self.times,
            self.ahead,
            cycles,
        )
        assert end < cycles, "the harts have not stopped"
        return [hart["mark"][: hart["marks"]].tolist() for hart in self.harts]


def loops() -> dict[str, np.ndarray]:
    """The measured programs by name."""
    file = Path(__file__).parents[1] / "data" / "icache_loops.json.gz"
    codes = json.loads(gzip.decompress(file.read_bytes()))
    return {name: program(bytes.fromhex(code)) for name, code in codes.items()}


COSTS = {"mulh": 5, "csr": 1}


def program(code: bytes) -> np.ndarray:
    """Code at BASE as rows: loops of six iterations, from the entry jump to the first store."""
    isa = profile("ri5cy")
    halves = [int.from_bytes(code[k : k + 2], "little") for k in range(0, len(code), 2)]
    rows = np.zeros(len(halves), ROW)
    for index, (low, high) in enumerate(zip(halves, [*halves[1:], 0], strict=True)):
        word = low if low & 3 != 3 else low | high << 16
        decoded = isa.decode(word)
        row = rows[index]
        row["size"] = 2 if low & 3 != 3 else 4
        row["cost"] = 1
        if decoded is None:
            continue
        key, operands, timing = decoded.insn.key, decoded.operands, decoded.insn.timing
        row["cost"] = COSTS.get(timing, 1)
        if timing in ("jump", "branch"):
            row["kind"] = JUMP if timing == "jump" else BRANCH
            row["target"] = BASE + 2 * index + operands["imm"]
            row["every"] = 6
        elif timing == "store":
            row["kind"] = STOP
        elif key == "slti" and operands["rd"] == 0:
            row["mark"] = 1
        elif timing == "csr" and operands["csr"] == 0x300:
            row["cost"] = 4  # mstatus
    return rows

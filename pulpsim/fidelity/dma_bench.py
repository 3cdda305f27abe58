"""The bench of the measured DMA tests: scripted control ports, L1 with rivals, memories, logs.

A script is a list of accesses by port: A alloc (load of CMD), W value (store to CMD), S load of
STATUS, F free the port's counter, D n idle cycles, E wait for the port's event line. A port asks
for its next access in the cycle after the grant of the last one.

L1 and L2 are filled by formula; the measurements hold hashes of both at the end. Rivals are
masters 0.. that read random words of L1: each free one starts a request with probability
rivals_in_256 / 256, and repeats it until it is granted. One linear congruential generator serves
all; generator, formulas and hashes were recovered from the measurements.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from pulpsim.fidelity.dma_notes import ACCESSES, note, note_bursts, note_lanes, note_outputs, step
from soc.aot import units
from soc.aot.kept_steps import keep
from soc.dma.mchan import DmaSpec, ask, grant_ports, is_idle, new_dma, request_lanes, tick
from soc.interconnect.axi_l2 import L2Spec, l2_state
from soc.interconnect.rr_arbiter import arbitrate

L1_BYTES = 1 << 18
L2_BYTES = 1 << 20
L2_BASE = 0x1C000000
LIMIT = 60000
"""Cycles after which the bench stops a script that does not end."""

KINDS = "AWSFDER"
ALLOC, STORE, STATUS, FREE, DELAY, WAIT, REPLY = range(7)
SEED_FACTOR, SEED_OFFSET = 2654435761, 12345
GENERATOR_FACTOR, GENERATOR_OFFSET = 1664525, 1013904223


@dataclass
class Script:
    """One test: its name, options and accesses."""

    name: str
    options: dict[str, int]
    ports: list[tuple[int, int]] = field(default_factory=list)  # port, first cycle
    accesses: list[list[tuple[int, int]]] = field(default_factory=list)  # kind, value


@dataclass
class ScriptResult:
    """The result of a script."""

    end: int
    logs: list[np.ndarray]
    rival_grants: int
    dma: np.void
    l1: np.ndarray
    l2: np.ndarray


def parse_scripts(text: str) -> list[Script]:
    """The tests of a file of scripts."""
    scripts: list[Script] = []
    for line in text.splitlines():
        kind, *words = line.split()
        if kind == "T":
            options = dict(word.split("=") for word in words[1:])
            scripts.append(Script(words[0], {k: int(v) for k, v in options.items()}))
        elif kind == "P":
            scripts[-1].ports.append((int(words[0]), int(words[1])))
            scripts[-1].accesses.append([])
        else:
            value = int(words[0], 0) if words else 0
            scripts[-1].accesses[-1].append((KINDS.index(kind), value))
    return scripts


def initial_l1() -> np.ndarray:
    i = np.arange(L1_BYTES)
    return (11 * i + 5 * (i >> 8) + 1).astype(np.uint8).view(np.int32)


def initial_l2() -> np.ndarray:
    i = np.arange(L2_BYTES)
    return (7 * i + 13 * (i >> 8) + 29 * (i >> 16) + 3).astype(np.uint8).view(np.int32)


@keep
@step
def memory_hash(octets):
    """FNV-1a with the offset basis that the measurements used."""
    value = np.uint64(1469598103934665603)
    for octet in octets:
        value = (value ^ np.uint64(octet)) * np.uint64(1099511628211)
    return value


def run(script: Script, *, until: int = 0, limit: int = LIMIT) -> ScriptResult:
    """Run a script to its end or the limit, and L1's rivals at least until a cycle."""
    options = script.options
    dma = new_dma(DmaSpec(), l1_size=L1_BYTES, l2_base=L2_BASE, l2_size=L2_BYTES)
    path = l2_state(L2Spec(private_banks=0))  # one plain memory
    assert options["rlat"] == options["blat"]
    path["latency"] = options["rlat"]
    gap = options.get("rgap", 0)
    l1, l2 = INITIAL_L1.copy(), INITIAL_L2.copy()
    rivals = np.array(
        [options.get("cn", 0), options.get("cprob", 0), options.get("cseed", 0), 0], np.int64
    )
    table = np.array(
        [
            (row, port, start, kind, value)
            for row, (port, start) in enumerate(script.ports)
            for kind, value in script.accesses[row]
        ],
        np.int64,
    )
    end, counts, logs = run_script(dma[0], l1, l2, path[0], gap, table, rivals, until, limit)
    return ScriptResult(
        int(end),
        [log[:count].copy() for log, count in zip(logs, counts, strict=True)],
        int(rivals[3]),
        dma[0],
        l1,
        l2,
    )


@partial(keep, uses=(units.DMA,))
@step
def run_script(dma, l1, l2, path, gap, table, rivals, until, limit):
    """Run until nothing is left to do, or an error; the cycle, rows of each log, the logs."""
    logs = np.empty((5, 40000, 6), np.int64)
    counts = np.zeros(5, np.int64)
    at, when, asked, loads, counter = start_script(table)
    rows = len(at)
    banks = np.zeros(16, np.int64) - 1
    rr = np.zeros(16, np.int64)
    draw = np.zeros(1, np.int64)
    draw[0] = (rivals[2] * SEED_FACTOR + SEED_OFFSET) & 0xFFFFFFFF
    shown = 0
    now = 0
    while now < limit:
        shown = note_outputs(dma, logs, counts, shown, now)
        waiting = False
        for row in range(rows):
            waiting |= step_script(
                dma, row, table, at, when, asked, loads, counter, logs, counts, now
            )
        if not waiting and is_idle(dma) and now >= until or dma["error"]:
            break
        granted = grant_ports(dma)
        for row in range(rows):
            if asked[row] and granted >> table[at[row], 1] & 1:
                kind = table[at[row], 3]
                value = table[at[row], 4] if kind == STORE else 0
                note(logs, counts, ACCESSES, now, table[at[row], 1], kind, value, 0, 0)
                loads[row] = kind
                asked[row] = 0
                when[row] = now + 1
                at[row] += 1
        lanes = request_lanes(dma)
        won = serve_banks(dma, lanes, banks, rr, rivals, draw)
        note_lanes(dma, lanes, won, logs, counts, now)
        before = (
            dma["channel"][0]["ids"],
            dma["channel"][1]["ids"],
            dma["channel"][0]["moved"],
            dma["channel"][1]["moved"],
        )
        tick(dma, lanes, won, l1, l2, path, now)
        if dma["channel"][1]["moved"] != before[3]:
            dma["channel"][1]["next_read"] += gap
        note_bursts(dma, before, logs, counts, now)
        now += 1
    return now, counts, logs


@step
def start_script(table):
    """Of each row: its next access and that one's cycle, whether it is asked for, the kind of the
    one granted last or -1, and the counter that the row holds.
    """
    rows = table[-1, 0] + 1
    at = np.zeros(rows, np.int64)
    for k in range(len(table) - 1, -1, -1):
        at[table[k, 0]] = k
    when = table[at, 2].copy()
    asked = np.zeros(rows, np.int64)
    loads = np.zeros(rows, np.int64) - 1
    counter = np.zeros(rows, np.int64)
    return at, when, asked, loads, counter


@step
def step_script(dma, row, table, at, when, asked, loads, counter, logs, counts, now):
    """Take a reply, ask for the next access when it is time; True while accesses are left."""
    port = table[at[row] - 1 if at[row] == len(table) or table[at[row], 0] != row else at[row], 1]
    if loads[row] == ALLOC:
        counter[row] = dma["port"][port]["reply"]
    elif loads[row] == STATUS:
        note(logs, counts, ACCESSES, now, port, REPLY, dma["port"][port]["reply"], 0, 0)
    loads[row] = -1
    while at[row] < len(table) and table[at[row], 0] == row:
        if asked[row] or when[row] > now:
            return True
        kind = table[at[row], 3]
        if kind == DELAY:
            when[row] += table[at[row], 4]
            at[row] += 1
        elif kind == WAIT:
            when[row] = now + 1
            at[row] += dma["event"] >> port & 1
        else:
            value = 1 << counter[row] if kind == FREE else table[at[row], 4]
            write = 1 if kind == STORE or kind == FREE else 0
            ask(dma, port, write, 0 if kind == ALLOC or kind == STORE else 4, value)
            asked[row] = 1
    return False


@step
def draw_number(draw):
    draw[0] = (draw[0] * GENERATOR_FACTOR + GENERATOR_OFFSET) & 0xFFFFFFFF
    return draw[0]


@step
def serve_banks(dma, lanes, banks, rr, rivals, draw):
    """The lanes that win their bank; banks: the bank that each rival asks for, or -1."""
    requests = np.zeros(16, np.int64)
    for rival in range(rivals[0]):
        if banks[rival] < 0 and draw_number(draw) >> 24 < rivals[1]:
            banks[rival] = draw_number(draw) >> 10 & 15
        if banks[rival] >= 0:
            requests[banks[rival]] |= 1 << rival
    for lane in range(4):
        if lanes >> lane & 1:
            requests[dma["lane_word"][lane] & 15] |= 1 << (12 + lane)
    won = 0
    for bank in range(16):
        if requests[bank]:
            winner, rr[bank], _ = arbitrate(np.uint64(requests[bank]), rr[bank])
            if winner >= 12:
                won |= 1 << (winner - 12)
            else:
                banks[winner] = -1
                rivals[3] += 1
    return won


INITIAL_L1, INITIAL_L2 = initial_l1(), initial_l2()

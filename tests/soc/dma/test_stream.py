"""Streams of the DMA come to the state that its cycle steps come to, byte for byte."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from pulpsim.fidelity.dma import FAMILIES, measured_tests
from pulpsim.fidelity.dma_bench import (
    INITIAL_L1,
    INITIAL_L2,
    L1_BYTES,
    L2_BASE,
    L2_BYTES,
    LIMIT,
    Script,
    draw_number,
    parse_scripts,
    serve_banks,
    start_script,
    step_script,
)
from pulpsim.fidelity.dma_notes import step
from soc.aot import units
from soc.aot.kept_steps import keep
from soc.dma.mchan import DmaSpec, grant_ports, is_idle, new_dma, request_lanes, tick
from soc.dma.state import DMA_STATE
from soc.dma.stream import begin_streams, end_streams
from soc.dma.stream_beats import may_begin, pass_beats, stream_lanes
from soc.interconnect.axi_l2 import L2Spec, l2_state

EVERY = dict.fromkeys(("1d", "al", "2d"), 20) | {"mu": 4}
"""Of how many measured tests of a family one is run regularly, where that is not every one."""

PAUSED = ("gap1", "gap2", "gap3")
"""Families whose bench holds back beats of L2, between ticks."""

FIELDS: Any = DMA_STATE.fields
STREAM, AFTER_STREAM = FIELDS["streams"][1], FIELDS["error"][1]
"""Bytes of the state that streams alone use."""

EQUAL, LANES_DIFFER, STATES_DIFFER = range(3)


class Compared(NamedTuple):
    """What a script did: whether both are equal, in which cycle not; cycles, those in streams."""

    outcome: int
    now: int
    cycles: int
    streamed: int


@partial(keep, uses=(units.DMA,))
@step
def compare(dma, other, octets, others, l1, l2, l1_other, l2_other, paths, table, rivals, cuts):
    """Run a script by cycle steps, and with streams, which are cut short at random.

    octets, others    bytes of the two DMAs
    cuts              of 256 cycles of a stream so many are its last one; seed
    """
    logs = np.empty((5, 40000, 6), np.int64)
    counts = np.zeros(5, np.int64)
    at, when, asked, loads, counter = start_script(table)
    rows = len(at)
    banks = np.zeros(16, np.int64) - 1
    rr = np.zeros(16, np.int64)
    draw = np.zeros(1, np.int64)
    draw[0] = rivals[2]
    cut = np.zeros(1, np.int64)
    cut[0] = cuts[1]
    left = streamed = now = 0
    while now < LIMIT:
        waiting = False
        counts[:] = 0
        for row in range(rows):
            waiting |= step_script(
                dma, row, table, at, when, asked, loads, counter, logs, counts, now
            )
        if not waiting and is_idle(dma) or dma["error"]:
            break
        if dma["asked"] & ~other["waiting"]:
            end_streams(other)
            left = 0
            other["asked"] = dma["asked"]
            for port in range(16):
                other["port"][port]["write"] = dma["port"][port]["write"]
                other["port"][port]["offset"] = dma["port"][port]["offset"]
                other["port"][port]["value"] = dma["port"][port]["value"]
        if left == 0:
            for k in range(len(octets)):
                if octets[k] != others[k] and not STREAM <= k < AFTER_STREAM:
                    return STATES_DIFFER, now, k, streamed
        granted = grant_ports(dma)
        other["granted"] = 0
        if other["asked"] & ~other["waiting"]:  # as soc.engine.fast_path does
            grant_ports(other)
        for row in range(rows):
            if asked[row] and granted >> table[at[row], 1] & 1:
                loads[row] = table[at[row], 3]
                asked[row] = 0
                when[row] = now + 1
                at[row] += 1
        if left == 0 and may_begin(other):
            left = begin_streams(other, now)
        lanes = request_lanes(dma)
        expected = stream_lanes(other) if left else request_lanes(other)
        if lanes != expected:
            return LANES_DIFFER, now, expected, streamed
        for lane in range(4):
            if lanes >> lane & 1 and dma["lane_word"][lane] != other["lane_word"][lane]:
                return LANES_DIFFER, now, lane, streamed
        won = serve_banks(dma, lanes, banks, rr, rivals, draw)
        dma["l2_write"] = dma["l2_read"] = -1
        tick(dma, lanes, won, l1, l2, paths[0], now)
        if left and (won != lanes or draw_number(cut) >> 24 < cuts[0]):
            end_streams(other)
            left = 0
        if left:
            pass_beats(other, l1_other, l2_other)
            streamed += 1
            left -= 1
            if left == 0:
                end_streams(other)
        else:
            other["l2_write"] = other["l2_read"] = -1
            tick(other, lanes, won, l1_other, l2_other, paths[1], now)
        now += 1
    return EQUAL, now, now, streamed


def compared(script: Script, seed: int, share: int) -> Compared:
    """Run a script both ways; of 256 cycles of a stream this share is its last one."""
    both = [
        new_dma(DmaSpec(), l1_size=L1_BYTES, l2_base=L2_BASE, l2_size=L2_BYTES) for _ in range(2)
    ]
    private_banks = 0 if seed % 4 else 2  # from these no stream reads
    paths = np.concatenate([l2_state(L2Spec(private_banks=private_banks))] * 2)
    paths["latency"] = script.options["rlat"]
    l1, l2 = ([words.copy(), words.copy()] for words in (INITIAL_L1, INITIAL_L2))
    rivals = [script.options.get(name, 0) for name in ("cn", "cprob", "cseed")] + [0]
    table = [
        (row, port, start, kind, value)
        for row, (port, start) in enumerate(script.ports)
        for kind, value in script.accesses[row]
    ]
    octets = [dma.view(np.uint8) for dma in both]
    result = Compared(
        *compare(
            both[0][0],
            both[1][0],
            *octets,
            l1[0],
            l2[0],
            l1[1],
            l2[1],
            paths,
            np.array(table, np.int64),
            np.array(rivals, np.int64),
            np.array([share, seed], np.int64),
        )
    )
    if result.outcome == EQUAL:
        assert np.array_equal(l1[0], l1[1]), script.name
        assert np.array_equal(l2[0], l2[1]), script.name
    return result


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in PAUSED])
def test_measured_transfers(name, request):
    every = 1 if request.config.getoption("--full") else EVERY.get(name, 1)
    for number, (script, _) in enumerate(measured_tests()[name][::every]):
        result = compared(script, number, (0, 30)[number % 2])
        assert result.outcome == EQUAL, (script.name, result)


def random_script(random: np.random.Generator) -> Script:
    """Transfers of several ports, one after the other in each, beside rivals for L1's banks."""
    options = {"rlat": int(random.integers(1, 30)), "cn": 8, "cseed": int(random.integers(1, 99))}
    options["cprob"] = int(random.choice([0, 0, 5, 20, 60, 200]))
    lines = ["T random " + " ".join(f"{name}={value}" for name, value in options.items())]
    for port in range(int(random.integers(1, 5))):
        lines.append(f"P {port} {random.integers(1, 60)}")
        for _ in range(int(random.integers(1, 4))):
            size = int(random.integers(1, random.choice([64, 600, 4000])))
            flags = random.integers(0, 2, 4)
            word = size | int(flags[0]) << 17 | int(flags[1] | random.integers(0, 2)) << 18
            word |= int(flags[2]) << 19 | 1 << 20 | int(flags[3]) << 23
            l1, l2 = (int(each) for each in random.integers(0, 1 << 15, 2))
            accesses = [word, l1, L2_BASE + l2]
            for side in (2, 3):
                if flags[side]:
                    line = int(random.integers(1, size + 1))
                    accesses += [line, line + int(random.integers(0, 99))]
            lines += ["A", *(f"W {value:#x}" for value in accesses)]
            lines += ["E"] * int(random.integers(0, 2))
    (script,) = parse_scripts("\n".join(lines))
    return script


def test_random_transfers(request):
    random = np.random.default_rng(7)
    cycles = streamed = 0
    for number in range(3000 if request.config.getoption("--full") else 100):
        script = random_script(random)
        result = compared(script, number, (0, 10, 60)[number % 3])
        assert result.outcome == EQUAL, (script, result)
        cycles += result.cycles
        streamed += result.streamed
    assert streamed > cycles / 20

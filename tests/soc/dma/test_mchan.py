"""The DMA against MCHAN's RTL: 11,927 measured tests; and what they leave out, by hand."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pulpsim.fidelity.comparison import compared
from pulpsim.fidelity.dma import FAMILIES, measured_tests, repeat_test
from pulpsim.fidelity.dma_bench import (
    INITIAL_L1,
    INITIAL_L2,
    L2_BASE,
    LIMIT,
    REPLY,
    STORE,
    Script,
    ScriptResult,
    parse_scripts,
    run,
)
from pulpsim.fidelity.dma_notes import ACCESSES, EVENTS, STATUSES
from soc.dma.mchan import DmaSpec, ask, error_message, grant_ports, is_idle, new_dma, why_waiting

ROOT = Path(__file__).parents[3]

EVERY = dict.fromkeys(("1d", "al", "2d"), 20) | {"mu": 2}
"""Of how many tests of a family one is run regularly, where that is not every one."""


@pytest.mark.parametrize("name", FAMILIES)
def test_accesses_events_status_bursts_and_memories_equal_the_rtl(name, request):
    every = 1 if request.config.getoption("--full") else EVERY.get(name, 1)
    for script, measured in measured_tests()[name][::every]:
        rtl, simulated = repeat_test(script, measured)
        assert compared(script.name, rtl, simulated).differences == ()


def test_all_measured_tests_are_there():
    assert sum(len(tests) for tests in measured_tests().values()) == 11927


def test_plain_python_does_the_same_as_compiled_code():
    code = (
        "from pulpsim.fidelity.dma import repeat_test, measured_tests\n"
        "results = [repeat_test(*test, memories=False) for test in measured_tests()['tr']]\n"
        "print(len(results), [rtl for rtl, simulated in results if rtl != simulated])\n"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout + done.stderr == "18 []\n"


def script_of(*lines: str, **options: int) -> Script:
    """A script without measurement; its lines as in the files of scripts."""
    given = {"rlat": 11, "blat": 11, **options}
    head = "T by_hand " + " ".join(f"{name}={value}" for name, value in given.items())
    (script,) = parse_scripts("\n".join([head, *lines]))
    return script


TO_L1, INCREMENT, L2_LINES, EVENT, L1_LINES = 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 23


def transfer(word: int, l1: int, l2: int, *lines: int) -> list[str]:
    return ["A", *(f"W {value:#x}" for value in (word, l1, L2_BASE + l2, *lines))]


def places(start: int, size: int, line: int, stride: int) -> np.ndarray:
    """Byte addresses of a side: lines of `line` bytes, `stride` apart."""
    i = np.arange(size)
    return start + i // line * stride + i % line


def random_transfer(random: np.random.Generator) -> tuple[Script, np.ndarray, np.ndarray]:
    """A script with one transfer, and the two memories behind it."""
    size = int(random.integers(1, 1200))
    to_l1, l2_lines, l1_lines = (bool(flag) for flag in random.integers(0, 2, 3))
    starts = random.integers(1 << 17, (1 << 17) + (1 << 14), 2)
    lines = [int(random.integers(1, 200)) if flag else size for flag in (l2_lines, l1_lines)]
    strides = [int(random.choice([1, -1]) * (line + random.integers(0, 50))) for line in lines]
    word = size | INCREMENT | EVENT | to_l1 * TO_L1 | l2_lines * L2_LINES | l1_lines * L1_LINES
    operands = [
        value
        for flag, line, stride in zip((l2_lines, l1_lines), lines, strides, strict=True)
        if flag
        for value in (line, stride & 0xFFFFFFFF)
    ]
    l2_places = places(int(starts[0]), size, lines[0], strides[0])
    l1_places = places(int(starts[1]), size, lines[1], strides[1])
    l1, l2 = (memory.view(np.uint8).copy() for memory in (INITIAL_L1, INITIAL_L2))
    if to_l1:
        l1[l1_places] = l2[l2_places]
    else:
        l2[l2_places] = l1[l1_places]
    latency = int(random.integers(1, 30))
    accesses = transfer(word, int(starts[1]), int(starts[0]), *operands)
    options = {"cn": 8, "cprob": int(random.integers(0, 256)), "cseed": int(random.integers(1, 99))}
    script = script_of("P 0 5", *accesses, rlat=latency, blat=latency, **options)
    return script, l1, l2


def test_random_transfers_move_exactly_their_bytes(request):
    random = np.random.default_rng(1)
    for _ in range(2000 if request.config.getoption("--full") else 300):
        script, l1, l2 = random_transfer(random)
        result = run(script)
        assert result.dma["error"] == 0
        assert len(result.logs[EVENTS]) == 1
        assert np.array_equal(result.l1.view(np.uint8), l1), script
        assert np.array_equal(result.l2.view(np.uint8), l2), script


def test_without_increment_every_beat_has_the_same_external_address():
    result = run(script_of("P 0 5", *transfer(64 | TO_L1 | EVENT, 0x80, 0x40)))
    assert np.array_equal(result.l1[0x20:0x30], np.tile(INITIAL_L2[0x10:0x12], 8))


def command_words(result: ScriptResult) -> list[tuple[int, int]]:
    """Cycle and port of each command word's grant."""
    stores = [row for row in result.logs[ACCESSES].tolist() if row[2] == STORE]
    first: dict[int, int] = {}
    for cycle, port, *_ in stores:
        first.setdefault(port, cycle)
    return [(cycle, port) for port, cycle in first.items()]


def test_a_fifth_2d_command_waits_until_the_splitter_takes_one():
    lines = []
    for port in range(8):
        word = 256 | TO_L1 | INCREMENT | EVENT | L2_LINES
        lines += [f"P {port} 5", *transfer(word, 0x400 * port, 0x1000 * port, 64, 128)]
    result = run(script_of(*lines))
    assert command_words(result)[:5] == [(6, 0), (7, 1), (8, 2), (9, 3), (12, 4)]
    assert result.dma["accesses"] == 8 * 256 // 4


def with_lines(port: int, start: int, delay: int, *, l1_lines: int) -> list[str]:
    """A row that allocates, pauses, and stores a command with lines of 16 bytes."""
    word = 64 | TO_L1 | INCREMENT | EVENT | L2_LINES | l1_lines
    alloc, *stores = transfer(word, 0x400 * port, 0x1000 * port, *[16, 32] * (1 + bool(l1_lines)))
    return [f"P {port} {start}", alloc, f"D {delay}", *stores]


def test_ports_with_lines_on_both_sides_get_both_entries_at_once():
    rows = [with_lines(port, 5, 0, l1_lines=L1_LINES) for port in range(8)]
    result = run(script_of(*(line for row in rows for line in row)))
    assert command_words(result)[:4] == [(6, 0), (7, 1), (8, 2), (9, 3)]
    assert (result.dma["error"], len(result.logs[EVENTS])) == (0, 8)
    assert (result.dma["lines_taken"].tolist(), result.dma["lost_entries"]) == ([0, 0], 0)


def test_entries_of_one_2d_queue_are_lost_while_the_other_is_full():
    word = 4096 | TO_L1 | INCREMENT | EVENT | L2_LINES
    rows = [[f"P {port} 5", *transfer(word, 0, 0, 64, 128)] for port in range(6)]
    last = with_lines(6, 40, 0, l1_lines=L1_LINES)
    result = run(script_of(*(line for row in [*rows, last] for line in row)))
    assert result.dma["lines_taken"].tolist() == [0xF, 0xF]  # the last command has lost them all
    assert (result.dma["lost_entries"], len(result.logs[EVENTS])) == (8, 6)


def test_an_entry_is_lost_where_the_2d_queues_choose_different_ports():
    rows = [
        with_lines(0, 5, 0, l1_lines=0),  # moves the round robin of one queue
        with_lines(2, 5, 40, l1_lines=L1_LINES),
        with_lines(3, 5, 41, l1_lines=L1_LINES),
    ]
    result = run(script_of(*(line for row in rows for line in row)))
    assert result.dma["lines_taken"].tolist() == [0xF, 0xF]
    assert (result.dma["lost_entries"], len(result.logs[EVENTS])) == (8, 1)


def test_the_seventeenth_counter_is_not_given():
    result = run(script_of("P 0 5", *transfer(8 | TO_L1 | INCREMENT, 0, 0) * 17))
    assert (result.end, result.dma["error"], result.dma["asked"]) == (LIMIT, 0, 1)
    assert is_idle(result.dma)
    assert why_waiting(result.dma, 0) == ("for a counter: 16 of 16 are allocated; store to STATUS")


def test_a_second_allocation_is_granted_a_cycle_later_and_keeps_both_counters():
    result = run(script_of("P 0 5", "A", "A"))
    assert [row[:2] for row in result.logs[ACCESSES].tolist()] == [[5, 0], [7, 0]]
    assert (result.dma["allocated"], result.dma["error"]) == (3, 0)
    assert is_idle(result.dma)


def test_a_port_with_a_counter_answers_status_a_cycle_later_and_takes_a_command_after_it():
    command = transfer(64 | TO_L1 | INCREMENT | EVENT, 0x80, 0)[1:]
    result = run(script_of("P 0 5", "A", "S", *command))
    granted = [row[0] for row in result.logs[ACCESSES].tolist() if row[2] != REPLY]
    assert granted == [5, 7, 9, 10, 11]
    assert len(result.logs[EVENTS]) == 1
    assert np.array_equal(result.l1[0x20:0x30], INITIAL_L2[:0x10])


def test_all_commands_run_on_the_newest_counter_and_end_with_one_event():
    word = 1024 | TO_L1 | INCREMENT | EVENT
    first, second = (transfer(word, at, at)[1:] for at in (0, 0x400))
    result = run(script_of("P 0 5", "A", "A", *first, *second))
    granted = [row[0] for row in result.logs[ACCESSES].tolist()]
    assert granted == [5, 7, 8, 9, 10, 15, 16, 17]
    assert {row[1] for row in result.logs[STATUSES].tolist()} == {0, 2}
    assert len(result.logs[EVENTS]) == 1
    assert np.array_equal(result.l1[:0x200], INITIAL_L2[:0x200])


def test_two_ports_of_which_one_allocates_twice_take_different_counters():
    result = run(script_of("P 0 5", "A", "A", "P 1 7", "A"))
    assert sorted(row[0] for row in result.logs[ACCESSES].tolist()) == [5, 7, 8]
    assert result.dma["allocated"] == 7


def wait_of(lines: list[str], cycles: int, port: int) -> str:
    """Why a port waits after so many cycles."""
    return why_waiting(run(script_of(*lines), limit=cycles).dma, port)


def test_a_port_waits_until_its_command_is_being_split():
    lines = ["P 0 5", *transfer(8192 | TO_L1 | INCREMENT, 0, 0) * 4]
    reason = "until its last command leaves the queue for the burst splitter"
    assert wait_of(lines, 100, 0) == reason


def test_a_port_waits_for_the_2d_queue():
    word = 4096 | TO_L1 | INCREMENT | L2_LINES
    lines = [line for port in range(8) for line in (f"P {port} 5", *transfer(word, 0, 0, 64, 128))]
    assert wait_of(lines, 30, 7) == "for an entry of the 2D queue"


def test_a_burst_is_a_power_of_two():
    with pytest.raises(ValueError) as error:
        DmaSpec(burst=96)
    (details,) = error.value.errors()
    assert details["msg"] == "Value error, burst is 96; the bytes of a burst are a power of two"


def test_an_end_has_the_event_bits_of_the_command_arbitrated_in_an_earlier_cycle():
    """Two commands on a counter, of which the second alone asks for an event; the first ends when
    the second is on its way: in three cycles of them it knows of the second's event.
    """
    first = transfer(8 | TO_L1 | INCREMENT, 0x80, 0)
    second = transfer(8 | TO_L1 | INCREMENT | EVENT, 0x100, 0x40)[1:]
    delays = range(14, 26)
    results = [run(script_of("P 0 5", *first, f"D {delay}", *second)) for delay in delays]
    assert [len(result.logs[EVENTS]) for result in results] == [1] * 4 + [2] * 3 + [1] * 5


def test_an_interrupt_goes_to_the_interrupt_line_alone():
    word = 64 | TO_L1 | INCREMENT | 1 << 21
    result = run(script_of("P 3 5", *transfer(word, 0, 0)))
    assert result.logs[EVENTS].tolist() == [[42, 0, 1 << 3, 0, 0, 0]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            transfer(TO_L1 | INCREMENT, 0, 0),
            "port 2: command word 0x00060000 has length 0, which moves 2^17 bytes; "
            "a length is 1..131071 bytes",
        ),
        (
            transfer(8 | INCREMENT, 0x20000000, 0),
            "port 2: L1 address 0x20000000 is not in L1; the DMA drops the upper bits of "
            "an L1 address",
        ),
        (
            transfer(64 | INCREMENT, 0x3FFE0, 0),
            "port 2: a line begins or ends at L1 offset 0x40020, outside L1; the DMA drops the "
            "upper bits of an L1 address and goes on at the other end of L1",
        ),
        (
            transfer(64 | INCREMENT | L1_LINES, 0x20, 0, 32, -0x40 & 0xFFFFFFFF),
            "port 2: a line begins or ends at L1 offset -0x20, outside L1; the DMA drops the "
            "upper bits of an L1 address and goes on at the other end of L1",
        ),
        (
            transfer(64 | INCREMENT, 0, -0x1000),
            "port 2: a line begins or ends at external address 0x1bfff000, outside L2, the only "
            "memory that the DMA reaches",
        ),
        (
            transfer(64 | INCREMENT | L2_LINES, 0, 0x20, 32, -0x40 & 0xFFFFFFFF),
            "port 2: a line begins or ends at external address 0x1bffffe0, outside L2, the only "
            "memory that the DMA reaches",
        ),
        (
            transfer(64 | INCREMENT, 0, (1 << 20) - 32),
            "port 2: a line begins or ends at external address 0x1c100020, outside L2, the only "
            "memory that the DMA reaches",
        ),
        (
            ["A", "W 0x40008", "A"],
            "port 2: load of CMD (0) in the middle of a command, which takes another counter and "
            "hangs the port after the transfer; store addresses and lines first",
        ),
        (
            ["A", "W 0x40008", "W 0x80", "S"],
            "port 2: access to STATUS (4) in the middle of a command; what is stored to CMD (0) "
            "next is taken for a command word; store addresses and lines first",
        ),
        (
            [*transfer(1024 | INCREMENT, 0, 0), "F"],
            "counters 0x0001 are running and no counter is allocated, which stops the DMA's "
            "clock; free a counter when its bit in STATUS is 0",
        ),
    ],
    ids=[
        *("zero length", "not in L1", "past L1", "back past L1", "below L2", "back past L2"),
        *("past L2", "alloc", "status", "freed"),
    ],
)
def test_what_hangs_or_corrupts_in_hardware_is_reported_with_its_rule(lines, message):
    result = run(script_of("P 2 5", *lines))
    assert result.dma["error"] != 0
    assert error_message(result.dma) == message


def test_an_unknown_register_is_reported():
    dma = new_dma(DmaSpec(), l1_size=1 << 16, l2_base=L2_BASE, l2_size=1 << 20)[0]
    ask(dma, 9, 0, 8, 0)
    assert grant_ports(dma) == 0
    assert error_message(dma) == (
        "port 9: offset 0x8 is no register and never answers; "
        "the registers are CMD (0) and STATUS (4)"
    )


def test_a_port_accepts_addresses_of_l1_from_its_base_and_from_zero():
    word = 64 | TO_L1 | INCREMENT
    results = [run(script_of("P 0 5", *transfer(word, l1, 0))) for l1 in (0x100, 0x10000100)]
    assert np.array_equal(results[0].l1, results[1].l1)
    assert not np.array_equal(results[0].l1, INITIAL_L1)

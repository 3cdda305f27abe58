"""DMA, on the chip and without time."""

import pytest

from firmware.drivers import Dma, command_words
from firmware.runtime import new_kernel, team_of
from soc.chip.spec import load_chip
from soc.run import run_program
from tests.firmware.kernels import refusal
from tests.firmware.machine import Machine

PULP = load_chip("pulp")
DATA = bytes((7 * n + 3) % 251 for n in range(1200))


def read_by(runner, k, *places):
    """What the chip, or the machine without time, leaves at these addresses."""
    if runner == "machine":
        machine = Machine(k.build(), k.isa).run()
        return [machine.read(*place) for place in places]
    result = run_program(k.build(), PULP, max_cycles=100_000)
    assert (result.exit.reason, result.exit.code, result.warnings) == ("exit", 0, ())
    return [result.read(*place) for place in places]


@pytest.mark.parametrize("runner", ["machine", "chip"])
@pytest.mark.parametrize("is_register", [False, True])
def test_the_dma_copies_to_l1_and_back(runner, is_register):
    k = new_kernel(PULP)
    source = k.data("source", DATA)
    l1 = k.buffer(k.l1, "l1", len(DATA))
    target = k.buffer(k.l2, "target", len(DATA))
    dma = Dma(k)
    with team_of(k, PULP, 2) as team, team.only(1), k.scope():
        counter, a, b = k.x(3)
        k.li(a, l1)
        k.li(b, source)
        dma.begin(counter)
        dma.to_l1(a if is_register else l1, b if is_register else source, 1000)
        dma.to_l1(l1 + 1000, source + 1000, 200)
        dma.wait(counter)
        dma.begin(counter)
        k.li(b, target)
        dma.to_l2(a if is_register else l1, b if is_register else target, 1200)
        dma.wait(counter)
    assert read_by(runner, k, (l1, 1200), (target, 1200)) == [DATA, DATA]


@pytest.mark.parametrize("runner", ["machine", "chip"])
def test_lines_of_l2_come_together_in_l1_and_a_short_stride_pads_them(runner):
    k = new_kernel(PULP)
    source = k.data("source", DATA)
    gathered = k.buffer(k.l1, "gathered", 5 * 24)
    padded = k.buffer(k.l1, "padded", 10 * 68)
    scattered = k.data("scattered", bytes(200))
    dma = Dma(k)
    with team_of(k, PULP, 8) as team:
        with team.only(0), k.scope():
            counter = k.x()
            dma.begin(counter)
            dma.to_l1(gathered, source, 5 * 24, line=24, stride=40)
            dma.to_l1(padded, source, 10 * 68, line=68, stride=64)
            dma.wait(counter)
            dma.begin(counter)
            dma.to_l2(gathered, scattered, 5 * 24, line=24, stride=40)
            dma.wait(counter)
        team.barrier()
    places = (gathered, 120), (padded, 680), (scattered, 200)
    lines = [DATA[40 * n : 40 * n + 24] for n in range(5)]
    wide = [DATA[64 * n : 64 * n + 68] for n in range(10)]
    apart = b"".join(line + bytes(16) for line in lines)
    assert read_by(runner, k, *places) == [b"".join(lines), b"".join(wide), apart]


@pytest.mark.parametrize("runner", ["machine", "chip"])
def test_lines_lie_apart_in_l1_too(runner):
    k = new_kernel(PULP)
    source = k.data("source", DATA)
    l1 = k.buffer(k.l1, "l1", 400)
    k.put(l1, bytes(400))
    target = k.data("target", bytes(200))
    dma = Dma(k)
    with team_of(k, PULP, 1), k.scope():
        counter = k.x()
        dma.begin(counter)
        dma.to_l1(l1, source, 96, l1_line=24, l1_stride=28)
        dma.to_l1(l1 + 200, source, 96, line=24, stride=40, l1_line=48, l1_stride=52)
        dma.wait(counter)
        dma.begin(counter)
        dma.to_l2(l1, target, 96, l1_line=24, l1_stride=28)
        dma.to_l2(l1 + 200, target + 100, 96, line=24, stride=25, l1_line=48, l1_stride=52)
        dma.wait(counter)
    apart = b"".join(DATA[24 * n : 24 * n + 24] + bytes(4) for n in range(4))
    both = [DATA[40 * n : 40 * n + 24] for n in range(4)]
    back = DATA[:96] + bytes(4) + b"".join(line + bytes(1) for line in both)
    halves = b"".join(both[:2]) + bytes(4) + b"".join(both[2:])
    assert read_by(runner, k, (l1, 112), (l1 + 200, 100), (target, 200)) == [apart, halves, back]


@pytest.mark.parametrize("runner", ["machine", "chip"])
def test_lines_go_backwards_on_either_side(runner):
    k = new_kernel(PULP)
    source = k.data("source", DATA)
    l1 = k.buffer(k.l1, "l1", 240)
    target = k.data("target", bytes(120))
    dma = Dma(k)
    with team_of(k, PULP, 1), k.scope():
        counter = k.x()
        dma.begin(counter)
        dma.to_l1(l1, source + 160, 120, line=24, stride=-40)
        dma.to_l1(l1 + 216, source, 120, l1_line=24, l1_stride=-24)
        dma.wait(counter)
        dma.begin(counter)
        dma.to_l2(l1, target + 96, 120, line=24, stride=-24)
        dma.wait(counter)
    lines = [DATA[40 * n : 40 * n + 24] for n in range(5)]
    first, last = b"".join(lines[::-1]), b"".join(lines)
    back = b"".join(DATA[24 * n : 24 * n + 24] for n in range(4, -1, -1))
    assert read_by(runner, k, (l1, 120), (l1 + 120, 120), (target, 120)) == [first, back, last]


def test_a_barrier_after_the_dma_waits_although_its_event_came():
    """An event of the DMA that nobody took must not end the wait at the barrier."""
    k = new_kernel(PULP)
    source = k.data("source", DATA)
    l1 = k.buffer(k.l1, "l1", 64)
    place = k.buffer(k.l2, "place", 4)
    dma = Dma(k)
    with team_of(k, PULP, 2) as team:
        with team.only(0), k.scope():
            counter = k.x()
            for _ in range(3):
                dma.begin(counter)
                dma.to_l1(l1, source, 8)
                with k.loop(50):
                    k.nop()
                dma.wait(counter)
        with team.only(1), k.scope():
            value, address = k.x(2)
            with k.loop(2000):
                k.nop()
            k.li(value, 99)
            k.li(address, place)
            k.sw(value, 0, address)
        team.barrier()
        with team.only(0), k.scope():
            value, address = k.x(2)
            k.li(address, place)
            k.lw(value, 0, address)
            k.li(address, l1)
            k.sw(value, 0, address)
    [value] = read_by("chip", k, (l1, 4))
    assert value == bytes([99, 0, 0, 0])


def test_copies_that_no_command_can_say_are_refused():
    k = new_kernel(PULP)
    dma = Dma(k)
    for size in (0, 1 << 17):
        message = f"dma: {size} bytes; a command copies 1 to 131071, make several"
        assert refusal(dma.to_l1, 0x10000000, 0x1C000000, size) == message
    assert refusal(dma.to_l2, 0x10000000, 0x1C000000, 100, line=24, stride=32) == (
        "dma: 100 bytes are not a whole number of 24-byte lines"
    )


def test_one_core_waits_for_the_copies_of_all():
    k = new_kernel(PULP)
    source = k.data("source", DATA)
    l1 = k.buffer(k.l1, "l1", len(DATA))
    target = k.buffer(k.l2, "target", len(DATA))
    dma, half = Dma(k), len(DATA) // 2
    with team_of(k, PULP, 3) as team, k.scope():
        counter = k.x()
        k.li(counter, 0)
        for core in (1, 2):
            with team.only(core):
                at = half * (core - 1)
                dma.begin(counter)
                for words in (
                    command_words(True, l1 + at, source + at, half, to_all=True),
                    command_words(False, l1 + at, target + at, half, to_all=True),
                ):
                    dma.start(words)
                    dma.wait_for_all()
        with team.only(0):
            with k.loop(100):
                k.nop()
            dma.wait_for_all()
        team.barrier()
        dma.free(counter)
    assert read_by("chip", k, (l1, 1200), (target, 1200)) == [DATA, DATA]

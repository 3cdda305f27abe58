"""HyperBus by hand: the cycles of the RTL's transactions, and every byte where it belongs."""

import random

import numpy as np
import pytest
from simpy import Environment

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.address_map.hyperbus import HYPERBUS, HYPERBUS_COMMON
from soc.board.memory import save_memory
from soc.chip.spec import load_chip
from soc.peripherals.bus import NotReady
from soc.peripherals.udma import Udma
from soc.peripherals.udma_parts import udma_parts
from soc.run import ENGINES, run_program

COMMON, BASE = 0x880, 0x480


class Memory:
    """A small L2."""

    base, mask = 0x1C000000, 0xFFFFF

    def __init__(self):
        self.bytes = bytearray(random.Random(1).randbytes(1 << 20))

    def place(self, address, size):
        return address & self.mask

    def load(self, offset, size):
        return bytes(self.bytes[offset : offset + size])

    def store(self, offset, data):
        self.bytes[offset : offset + len(data)] = data


class Bench:
    """A uDMA with HyperBus, its clock on."""

    def __init__(self, **fields):
        chip = load_chip("pulp", {f"hyperram.{name}": value for name, value in fields.items()})
        self.env, self.log, self.warnings, self.l2 = Environment(), [], [], Memory()
        self.udma = Udma(
            self.env,
            self.l2,
            self.warnings.append,
            lambda number: self.log.append((self.env.now, number)),
            udma_parts(chip, lambda *_: None, self.warnings.append),
        )
        self.udma.write(0, 1 << 8, 4)
        self.common("PAGE_BOUND", 3)

    @property
    def ram(self):
        return self.udma.part(16).ram

    def common(self, name, value):
        self.udma.write(COMMON + HYPERBUS_COMMON.offset(name), value, 4)

    def put(self, name, value, queue=0):
        self.udma.write(BASE + 0x80 * queue + HYPERBUS.offset(name), value, 4)

    def get(self, name, queue=0):
        return self.udma.read(BASE + 0x80 * queue + HYPERBUS.offset(name), 4)

    def start(self, is_read, size, device=0, l2=0x1C000000, queue=0, **registers):
        side = "RX" if is_read else "TX"
        self.put("COMMAND", 5 if is_read else 1, queue)
        self.put("ADDRESS", device, queue)
        for name, value in registers.items():
            self.put(name, value, queue)
        self.put(f"{side}_ADDRESS", l2, queue)
        self.put(f"{side}_SIZE", size, queue)
        self.put(f"{side}_CONFIG", 0x10, queue)

    def end(self):
        self.env.run()
        return [cycle for cycle, number in self.log if number in (34, 35)]


@pytest.mark.parametrize(
    ("size", "device", "page", "write", "read"),
    [
        (4, 0, 3, 68, 70),
        (64, 0, 3, 128, 130),
        (1024, 0, 3, 1088, 1090),
        (4096, 0, 3, 4334, 4342),
        (4096, 0, 0, 5958, 6022),
        (4096, 0, 4, 4160, 4162),
        (128, 1, 0, 252, 256),
    ],
)
def test_transactions_take_the_cycles_of_the_rtl(size, device, page, write, read):
    for is_read, cycles in ((False, write), (True, read)):
        bench = Bench()
        bench.common("PAGE_BOUND", page)
        bench.env.run(until=100)
        bench.start(is_read, size, device)
        assert bench.get("STATUS") == 1
        assert bench.end() == [100 + cycles]
        assert bench.get("STATUS") == 0


def test_lines_single_latency_and_waiting_transactions_take_the_cycles_of_the_rtl():
    lines = {"DEVICE_2D": 1, "DEVICE_COUNT": 64, "DEVICE_STRIDE": 256}
    for is_read, cycles in ((False, 1988), (True, 2020)):
        bench = Bench()
        bench.start(is_read, 1024, **lines)
        assert bench.end() == [cycles]
    for size, cycles in ((1024, 1076), (2048, 2146)):
        bench = Bench()
        bench.common("LATENCY_ADD", 0)
        bench.start(False, size)
        assert bench.end() == [cycles]
    bench = Bench()
    bench.start(True, 1024)
    bench.start(True, 1024, queue=1)
    assert bench.end() == [1090, 1090 + 1086]


def test_copies_of_all_sizes_places_and_shapes_bring_every_byte():
    draw = random.Random(2)
    for _ in range(40):
        bench = Bench()
        size, device, l2 = draw.randint(1, 700), draw.randint(0, 3000), draw.randint(0, 300)
        count, stride = draw.randint(1, 200), draw.randint(200, 300)
        sides = draw.choice([(), ("DEVICE",), ("L2",), ("DEVICE", "L2")])
        bench.common("PAGE_BOUND", draw.randint(0, 4))
        setting = {}
        for side in sides:
            setting |= {f"{side}_2D": 1, f"{side}_COUNT": count, f"{side}_STRIDE": stride}
        lined = [i // count * stride + i % count for i in range(size)]
        there = [device + i for i in (lined if "DEVICE" in sides else range(size))]
        here = [l2 + i for i in (lined if "L2" in sides else range(size))]
        before = bytes(bench.l2.bytes)
        bench.start(False, size, device, 0x1C000000 + l2, **setting)
        bench.end()
        content = np.full(bench.ram.size, 0xFF, np.uint8)
        content[there] = np.frombuffer(before, np.uint8)[here]
        assert bench.ram.content() == content.tobytes()
        bench.start(True, size, device, 0x1C080000 + l2, **setting)
        bench.end()
        expected = np.frombuffer(before, np.uint8).copy()
        expected[np.array(here) + 0x80000] = expected[here]
        assert bytes(bench.l2.bytes) == expected.tobytes()


def test_the_content_comes_from_a_file_and_is_saved_to_one(tmp_path):
    (tmp_path / "in").write_bytes(b"before")
    bench = Bench(load=str(tmp_path / "in"), size=8192)
    bench.start(False, 4, 8)
    bench.end()
    save_memory(bench.ram, str(tmp_path / "out"), "hyperram.save")
    expected = (b"before\xff\xff" + bench.l2.load(0, 4)).ljust(8192, b"\xff")
    assert (tmp_path / "out").read_bytes() == expected


def test_past_the_end_of_the_device_writes_are_lost_and_warned_of():
    bench = Bench(size=4096)
    bench.start(False, 8, 4092)
    bench.end()
    assert bench.ram.content()[4092:] == bench.l2.load(0, 4)
    assert bench.warnings == ["hyperbus: 8 bytes at 0xffc go past the end of the device"]


def test_the_lowest_id_that_is_not_busy_is_offered():
    bench = Bench()
    found = []
    for queue in range(8):
        found.append(bench.udma.read(COMMON + HYPERBUS_COMMON.offset("TRANSACTION"), 4))
        bench.start(True, 4, queue=queue)
    assert found == list(range(8))
    assert bench.udma.read(COMMON + HYPERBUS_COMMON.offset("TRANSACTION"), 4) == 0


def test_what_the_rtl_would_not_carry_out_is_warned_of_once():
    bench = Bench()
    bench.common("PAGE_BOUND", 4)
    for _ in range(2):
        bench.start(False, 4096)
        bench.end()
    bench.common("SELECT_MAX", 0xFFFFFFFF)
    bench.common("DEVICE", 1)
    bench.start(False, 8)
    bench.end()
    bench.start(True, 8, l2=0x1C000100)
    bench.end()
    assert bench.l2.load(0x100, 8) == b"\xff" * 8
    assert bench.ram.read(0, 8) == bench.l2.load(0, 8)
    assert bench.warnings == [
        "hyperbus: SELECT_MAX = 665 cuts off the device after 1296 of 4096 bytes: writes are lost",
        "hyperbus: there is no device 1: writes are lost",
        "hyperbus: there is no device 1: what is read is 0xFF",
    ]


@pytest.mark.parametrize(("device", "size"), [(0, 100), (1, 100), (1, 39), (2, 40)])
def test_what_comes_after_select_max_is_cut_off(device, size):
    """SELECT_MAX - 5 - 12 half-words pass, here 20; the cycles are those of the whole."""
    bench = Bench()
    content = bytes(bench.l2.bytes[:size])
    bench.start(False, size, device)
    whole = bench.end()[-1]
    bench = Bench()
    bench.common("SELECT_MAX", 37)
    bench.start(False, size, device)
    assert bench.end() == [whole]
    kept = min(size, 40 - device % 2)
    assert bench.ram.read(device, size) == content[:kept].ljust(size, b"\xff")
    bench.ram.write(device, content)
    bench.start(True, size, device, l2=0x1C000400)
    bench.end()
    assert bench.l2.load(0x400, size) == content[:kept].ljust(size, b"\xff")


def test_a_read_of_a_missing_device_waits_until_select_max():
    ends = []
    for device, most in ((0, 0xFFFF), (1, 0xFFFF), (1, 117)):
        bench = Bench()
        bench.common("SELECT_MAX", most)
        bench.common("DEVICE", device)
        bench.start(True, 64)
        ends += bench.end()
    there, missing, soon = ends
    assert missing - there == 2 * (0xFFFF - 5 - 12)
    assert soon - there == 2 * (117 - 5 - 12)


def test_accesses_to_a_queue_that_is_full_wait_until_one_of_it_is_served():
    bench = Bench()
    for _ in range(9):
        bench.start(True, 1024, queue=3)
    later_ones = []
    with pytest.raises(NotReady) as wait:
        bench.get("STATUS", 3)
    wait.value.when(lambda: later_ones.append((bench.env.now, bench.get("STATUS", 3))))
    assert bench.get("STATUS", 2) == 0, "others do not"
    bench.env.run(until=1090)
    assert later_ones == []
    bench.end()
    assert later_ones == [(1090, 1 | 7 << 1)]
    assert bench.warnings == [
        "hyperbus: 8 transactions of queue 3 wait: accesses to its registers wait, too"
    ]


FULL = """
_start:
    li s0, 0x1A102000
    li t0, 0x100
    sw t0, 0(s0)
    li s1, 0x1A102480
    li t0, 0x1C001000
    sw t0, 0(s1)
    li t0, 64
    sw t0, 4(s1)
    li t0, 0x10
    li t1, 12
again:
    sw t0, 8(s1)
    addi t1, t1, -1
    bnez t1, again
wait:
    lw t0, 0x24(s1)
    bnez t0, wait
    li t0, 0x1A104000
    lui t1, 0x80000
    sw t1, 0xA0(t0)
    wfi
"""


def test_firmware_that_fills_a_queue_waits_in_both_engines_for_the_same_cycles():
    program = assemble(FULL, profile("ri5cy", "x"))
    results = [run_program(program, engine=engine, max_cycles=20_000) for engine in ENGINES]
    for result in results:
        assert result.exit.code == 0, result.exit.message
        assert len(result.warnings) == 1
        assert 12 * 126 < result.cycles < 12 * 126 + 200
    assert results[0].cycles == results[1].cycles

"""The SPI master by hand, with a flash behind it: bytes, states, losses as in the RTL's text."""

import random

import pytest
from simpy import Environment

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.address_map.spim import SPIM
from soc.chip.spec import load_chip
from soc.debug.checkpoint import _plain, _remember
from soc.peripherals.spim import Spim
from soc.peripherals.udma import Udma
from soc.peripherals.udma_parts import udma_parts
from soc.run import run_program
from tests.soc.peripherals.test_hyperbus import Memory

BASE = 0x100
CONFIG, START, END, END_TOLD = 0x00000000, 0x10000000, 0x90000000, 0x90000001
TX, RX, LIST = 0x1C001000, 0x1C002000, 0x1C003000


def send(value, bits=8):
    return 2 << 28 | bits - 1 << 16 | value


def tx(count):
    """Bytes, four to a word of L2, as drivers send them."""
    return 6 << 28 | 2 << 21 | 7 << 16 | count - 1


def rx(count):
    return 7 << 28 | 2 << 21 | 7 << 16 | count - 1


class Bench:
    """A uDMA with an SPI master, its clock on."""

    def __init__(self, device=None, **fields):
        fields = {"size": 1 << 20, "program_time": 1000, "erase_time": 5000} | fields
        chip = load_chip("pulp", {f"flash.{name}": value for name, value in fields.items()})
        self.env, self.log, self.warnings, self.l2 = Environment(), [], [], Memory()
        makers = dict(udma_parts(chip, lambda *_: None, self.warnings.append))
        if device:
            makers["spim"] = lambda ports: Spim(ports, [device])
        self.udma = Udma(
            self.env,
            self.l2,
            self.warnings.append,
            lambda number: self.log.append((self.env.now, number)),
            makers,
        )
        self.udma.write(0, 1 << 1, 4)
        self.env.run(until=10)

    @property
    def flash(self):
        return self.udma.part(1).devices[0].memory

    def put(self, name, value):
        self.udma.write(BASE + SPIM.offset(name), value, 4)

    def get(self, name):
        return self.udma.read(BASE + SPIM.offset(name), 4)

    def channel(self, side, address, size, config=0x14):
        self.put(f"{side}_ADDRESS", address)
        self.put(f"{side}_SIZE", size)
        self.put(f"{side}_CONFIG", config)

    def run(self, *commands, sent=b"", received=0):
        """Carry out commands. What was received; the cycles that END was told in."""
        self.l2.store(LIST & 0xFFFFF, b"".join(c.to_bytes(4, "little") for c in commands))
        self.l2.store(TX & 0xFFFFF, sent)
        if received:
            self.channel("RX", RX, received)
        if sent:
            self.channel("TX", TX, len(sent))
        self.started = self.env.now
        self.channel("CMD", LIST, 4 * len(commands))
        self.env.run(until=self.env.now + 200_000)
        return self.l2.load(RX & 0xFFFFF, received)

    def ends(self):
        return [cycle - self.started for cycle, number in self.log if number == 7]

    def status(self):
        return self.run(START, send(0x05), rx(4), END, received=4)[0]

    def write_enable(self):
        self.run(START, send(0x06), END)


def test_the_identification_is_that_of_the_flash():
    assert Bench().run(START, send(0x9F), rx(8), END, received=8) == bytes.fromhex(
        "01 02 19 4D 01 81 FF FF"
    )


@pytest.mark.parametrize("divider", [0, 1, 4])
def test_pages_are_erased_programmed_and_read(divider):
    draw = random.Random(divider)
    data = draw.randbytes(256)
    bench = Bench()
    bench.flash.write(0x2000, bytes(8192))
    bench.run(CONFIG | divider)
    bench.write_enable()
    bench.run(START, send(0x2100, 16), send(0x0020, 16), send(0, 8), END)
    assert bench.flash.read(0x2000, 4097) == b"\xff" * 4096 + b"\0"
    bench.write_enable()
    bench.run(START, send(0x1200, 16), send(0x0020, 16), send(0, 8), tx(256), END, sent=data)
    assert bench.flash.read(0x2000, 257) == data + b"\xff"
    read = (START, send(0x1300, 16), send(0x0020, 16), send(8, 8), rx(64), END)
    assert bench.run(*read, received=64) == data[8:72]
    assert not bench.warnings


def test_programming_clears_bits_within_its_page():
    bench = Bench()
    bench.flash.write(0, b"\x0f" * 512)
    bench.write_enable()
    program = START, send(0x02), send(0x0000, 16), send(0xFE, 8), tx(4), END
    bench.run(*program, sent=b"\x35\x36\x37\x38")
    expected = bytearray(b"\x0f" * 512)
    expected[0xFE:0x100], expected[:2] = b"\x05\x06", b"\x07\x08"
    assert bench.flash.read(0, 512) == expected


def test_status_tells_of_the_write_that_was_enabled_and_is_under_way():
    bench = Bench(program_time=1_000_000)
    assert bench.status() == 0
    bench.write_enable()
    assert bench.status() == 2
    bench.run(START, send(0x02), send(0, 16), send(0), tx(4), END, sent=b"abcd")
    assert bench.status() == 3
    assert bench.run(START, send(0x9F), rx(4), END, received=4) == b"\xff" * 4
    bench.env.run(until=2_000_000)
    assert bench.status() == 0
    assert bench.warnings == ["flash: command 0x9f comes while it is busy: it is ignored"]


def test_what_the_flash_does_not_do_is_warned_of_once():
    bench = Bench()
    for _ in range(2):
        bench.run(START, send(0x02), send(0, 16), send(0), tx(4), END, sent=b"abcd")
        bench.run(START, send(0xEB), END)
    assert bench.flash.read(0, 4) == b"\xff" * 4
    assert bench.warnings == [
        "flash: command 0x02 without write enable (0x06) is ignored",
        "flash: command 0xeb is not modelled: it is ignored",
    ]


@pytest.mark.parametrize(("divider", "period"), [(0, 1), (1, 2), (5, 10)])
def test_a_command_takes_the_clocks_of_its_states(divider, period):
    """START takes 2 clocks, SEND and DUMMY 1 and their bits, CONFIG 3, WAIT 2 and its cycles."""
    bench = Bench()
    bench.run(CONFIG | divider)
    bench.log.clear()
    bench.run(END_TOLD)
    (first,) = bench.ends()
    assert first == 7 + 3 * period + 3
    for commands, clocks in (
        ((START,), 2),
        ((send(0xFF),), 9),
        ((send(0xFF, 16),), 17),
        ((4 << 28 | 31 << 16,), 33),
        ((4 << 28,), 3),
        ((5 << 28 | 1 << 8 | 9,), 11),
        ((rx(4),), 33),
    ):
        bench.log.clear()
        bench.run(*commands, END_TOLD)
        assert bench.ends() == [first + clocks * period], commands


class Echo:
    """Logs the bits of the master, and drives those of a pattern."""

    def __init__(self, pattern=()):
        self.bits, self.pattern = [], list(pattern)

    def select(self):
        self.bits.append("[")

    def deselect(self):
        self.bits.append("]")

    def clock(self, bit):
        self.bits.append(bit)
        return self.pattern.pop(0) if self.pattern else 0


def test_words_go_out_and_come_in_in_both_orders_and_sizes():
    echo = Echo()
    bench = Bench(echo)
    word = 6 << 28 | 1 << 21 | 11 << 16  # of 12 bits, two in 32
    bench.run(START, word | 1, END, sent=b"\x34\x02\xcd\x0a")
    assert echo.bits == ["[", *map(int, f"{0x234:012b}{0xACD:012b}"), "]"]
    echo.bits.clear()
    bench.run(START, word | 1 << 26 | 1, END, sent=b"\x34\x02\xcd\x0a")
    assert echo.bits == ["[", *map(int, f"{0xACD:012b}{0x234:012b}"[::-1]), "]"]
    echo.pattern = list(map(int, f"{0x3C:08b}{0xA5:08b}"))
    bench.run(START, 7 << 28 | 1 << 21 | 7 << 16 | 1, received=4)
    assert bench.l2.load(RX & 0xFFFFF, 4) == b"\x3c\0\xa5\0"


def test_full_duplex_sends_and_receives_the_same_clocks():
    echo = Echo(map(int, f"{0x81:08b}{0x7E:08b}{0x11:08b}{0x22:08b}"))
    bench = Bench(echo)
    got = bench.run(START, 12 << 28 | 2 << 21 | 7 << 16 | 3, sent=b"wxyz", received=4)
    assert got == b"\x81\x7e\x11\x22"
    assert echo.bits[1:] == [int(bit) for byte in b"wxyz" for bit in f"{byte:08b}"]


def test_a_check_is_repeated_until_it_matches_or_to_its_end():
    poll = 8 << 28 | 50, START, send(0x05), 11 << 28 | 7 << 16 | 2 << 24, END, 10 << 28, END_TOLD
    bench = Bench(program_time=1000)
    bench.write_enable()
    bench.run(START, send(0x02), send(0, 16), send(0), tx(4), END, sent=b"abcd")
    bench.run(*poll)
    assert bench.get("STATUS") == 1, "matched"
    never = 8 << 28 | 3, START, send(0x05), 11 << 28 | 7 << 16 | 0x55, END, 10 << 28, END_TOLD
    bench.run(*never)
    assert bench.get("STATUS") == 2, "to its end"
    assert len(bench.ends()) == 2


def test_commands_set_up_channels_and_wait_for_triggers():
    bench = Bench()
    bench.flash.write(0, b"content!")
    bench.put("RX_SIZE", 0)
    bench.udma.write(4, 0x00_00_A5_00, 4)
    bench.run(
        13 << 28 | (RX & 0xFFFFF),
        14 << 28 | 2 << 25 | 8,
        5 << 28 | 1,
        START,
        send(0x03),
        send(0, 24),
        rx(8),
        END_TOLD,
    )
    assert bench.ends() == []
    bench.udma.hear(0xA4)
    bench.udma.hear(0xA5)
    bench.env.run(until=bench.env.now + 1000)
    assert len(bench.ends()) == 1
    assert bench.l2.load(RX & 0xFFFFF, 8) == b"content!"


def test_registers_read_as_the_rtl_has_them():
    bench = Bench()
    assert [bench.get(f"{side}_CONFIG") for side in ("RX", "TX", "CMD")] == [4, 0, 4]
    bench.channel("RX", RX, 7, config=0x12)
    assert bench.get("RX_CONFIG") == 0x12
    assert (bench.get("RX_ADDRESS"), bench.get("RX_SIZE")) == (RX, 7)
    bench.put("RX_CONFIG", 0x42)
    assert (bench.get("RX_CONFIG"), bench.get("RX_ADDRESS"), bench.get("RX_SIZE")) == (2, 0, 0)


def test_overruns_absent_devices_and_controllers_that_hang_are_warned_of_once():
    bench = Bench(size=0)
    for _ in range(2):
        bench.run(START | 1, rx(64), END)
    bench.run(4 << 28 | 1 << 27 | 4 << 16, END_TOLD)
    assert bench.ends() == []
    assert bench.warnings == [
        "spim: no device has chip select 1: what it would drive is 1",
        "spim: a word is lost: 10 wait, no transfer takes them",
        "spim: 5 bits in quad mode: the controller never ends, as in the RTL",
    ]


FIRMWARE = """
_start:
    li s0, 0x1A102000
    lw t0, 0(s0)
    ori t0, t0, 2
    sw t0, 0(s0)                 # clock of the SPI master
    li s1, 0x1A106000
    lw t0, 4(s1)
    andi t0, t0, -129
    sw t0, 4(s1)                 # event 7 to the fabric controller
    la t1, received
    sw t1, 0x100(s0)
    li t0, 8
    sw t0, 0x104(s0)
    li t0, 0x14
    sw t0, 0x108(s0)
    la t1, commands
    sw t1, 0x120(s0)
    li t0, 20
    sw t0, 0x124(s0)
    li t0, 0x14
    sw t0, 0x128(s0)
    li s2, 0x1A109800
wait:
    lw t0, 0x0C(s2)
    srli t0, t0, 26
    andi t0, t0, 1
    beqz t0, wait
    la t1, received
    lbu a0, 3(t1)                # 0x4D
    li t0, 0x1A104000
    lui t1, 0x80000
    or a0, a0, t1
    sw a0, 0xA0(t0)
    wfi
.data
.align 2
commands:
    .word 0x00000002, 0x10000000, 0x2007009F, 0x70470007, 0x90000001
received:
    .word 0, 0
"""


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_firmware_reads_the_identification_and_is_told_of_the_end(engine):
    chip = load_chip("pulp", {"flash.size": 1 << 25})
    result = run_program(assemble(FIRMWARE, profile("ri5cy", "x")), chip=chip, engine=engine)
    assert result.exit.code == 0x4D, result.exit.message
    assert not result.warnings


def test_a_program_keeps_the_last_256_bytes_and_no_more():
    bench = Bench()
    data = random.Random(1).randbytes(1000)
    bench.write_enable()
    bench.run(START, send(0x02), send(0x0010, 16), send(0x40, 8), tx(1000), END, sent=data)
    expected = bytearray(256)
    for place in range(744, 1000):
        expected[(0x40 + place) % 256] = data[place]
    assert bench.flash.read(0x1000, 256) == expected
    flash = bench.udma.part(1).devices[0]
    assert len(flash.taken) + len(flash.page) < 300


def test_a_restored_part_does_not_warn_again():
    bench, other = Bench(size=0), Bench(size=0)
    bench.run(START | 1, rx(64), END)
    flash, kept = Bench(), Bench()
    flash.run(START, send(0xEB), END)
    parts = (
        (bench.udma.part(1), other.udma.part(1)),
        (flash.udma.part(1).devices[0], kept.udma.part(1).devices[0]),
    )
    for part, to in parts:
        _remember(to, _plain(part))
    other.run(START | 1, rx(64), END)
    kept.run(START, send(0xEB), END)
    assert len(bench.warnings) == 2
    assert len(flash.warnings) == 1
    assert other.warnings == kept.warnings == []

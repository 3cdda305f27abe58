"""The I2C masters by hand, with EEPROMs behind them: bytes, bits, waits as in the RTL's text."""

import random
from itertools import pairwise

import pytest
from simpy import Environment

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.address_map.i2c import I2C
from soc.board.eeprom import Eeprom
from soc.board.memory import BoardMemory
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from soc.debug.checkpoint import _plain, _remember
from soc.peripherals.i2c import I2c
from soc.peripherals.i2c_bus import Bit, BusState, advance, rest, step
from soc.peripherals.udma import Udma
from soc.peripherals.udma_parts import udma_parts
from soc.run import ENGINES, run_program
from tests.soc.peripherals.test_hyperbus import Memory

BASE = 0x180
START, STOP, READ_ACK, READ_NACK, WRITE, END = (n << 28 for n in (0x0, 0x2, 0x4, 0x6, 0x8, 0x9))
WAIT, REPEAT, CONFIG, WAIT_EVENT = (n << 28 for n in (0xA, 0xC, 0xE, 0x1))
TX, RX, LIST = 0x1C001000, 0x1C002000, 0x1C003000


def byte(value):
    return 7 << 28 | value


class Bench:
    """A uDMA with an I2C master, its clock on since cycle 0."""

    def __init__(self, device=None, bus=0, **fields):
        fields = {"size": 1 << 17, "write_time": 50_000} | fields
        chip = load_chip("pulp", {f"eeprom_{bus}.{name}": value for name, value in fields.items()})
        self.env, self.log, self.warnings, self.l2 = Environment(), [], [], Memory()
        makers = dict(udma_parts(chip, lambda *_: None, self.warnings.append))
        if device:
            makers["i2c_0"] = lambda ports: I2c(ports, [device])
        self.bus = bus
        self.udma = Udma(
            self.env,
            self.l2,
            self.warnings.append,
            lambda number: self.log.append((self.env.now, number)),
            makers,
        )
        self.udma.write(0, 3 << 2, 4)
        self.env.run(until=10)

    @property
    def master(self):
        return self.udma.part(2 + self.bus)

    @property
    def eeprom(self):
        return self.master.devices[0].memory

    def put(self, name, value):
        self.udma.write(BASE + 0x80 * self.bus + I2C.offset(name), value, 4)

    def get(self, name):
        return self.udma.read(BASE + 0x80 * self.bus + I2C.offset(name), 4)

    def channel(self, side, address, size):
        self.put(f"{side}_ADDRESS", address)
        self.put(f"{side}_SIZE", size)
        self.put(f"{side}_CONFIG", 0x10)

    def run(self, *commands, sent=b"", received=0, cycles=400_000):
        """Carry out commands. What was received; `ends` has the cycles that END was told in."""
        self.l2.store(LIST & 0xFFFFF, b"".join(c.to_bytes(4, "little") for c in commands))
        self.l2.store(TX & 0xFFFFF, sent)
        if received:
            self.channel("RX", RX, received)
        if sent:
            self.channel("TX", TX, len(sent))
        self.started = self.env.now
        self.channel("CMD", LIST, 4 * len(commands))
        self.env.run(until=self.env.now + cycles)
        return self.l2.load(RX & 0xFFFFF, received)

    def ends(self):
        end = 4 * (2 + self.bus) + 3
        return [cycle - self.started for cycle, number in self.log if number == end]

    def write(self, address, data, control=0xA0):
        place = byte(address >> 8 & 0xFF), byte(address & 0xFF)
        self.run(
            *(CONFIG | 0x10, START, byte(control), *place),
            *(REPEAT | len(data), WRITE, STOP, END),
            sent=data,
        )

    def read(self, address, size, control=0xA0):
        place = byte(address >> 8 & 0xFF), byte(address & 0xFF)
        more = (REPEAT | size - 1, READ_ACK) if size > 1 else ()
        return self.run(
            *(CONFIG | 0x10, START, byte(control), *place, START, byte(control | 1)),
            *(*more, READ_NACK, STOP, END),
            received=size,
        )


@pytest.mark.parametrize("bus", [0, 1])
def test_pages_are_written_and_read_on_both_buses(bus):
    data = random.Random(bus).randbytes(128)
    bench = Bench(bus=bus)
    bench.write(0x1280, data, 0xA0 | bus << 1)
    assert bench.eeprom.read(0x1200, 512) == b"\xff" * 128 + data + b"\xff" * 256
    assert bench.read(0x1280, 128, 0xA0 | bus << 1) == data
    assert bench.read(0x12C0, 1, 0xA0 | bus << 1) == data[64:65]
    assert bench.get("NACK") == 0
    assert bench.get("STATUS") == 1, "the bus was busy"
    assert bench.get("STATUS") == 0, "a load clears it"
    assert not bench.warnings


def test_what_pulp_s_test_writes_is_read_back():
    """regression_tests peripherals/i2c: a write, a wait, a read with a repeated start."""
    bench = Bench(bus=1)
    head = CONFIG | 0x40, START, byte(0xA2), byte(0), byte(0)
    bench.run(*head, byte(0xCA), byte(1), byte(0xDE), byte(0xCA), STOP)
    tail = START, byte(0xA3), READ_ACK, READ_ACK, READ_ACK, READ_NACK, STOP
    assert bench.run(*head, *tail, received=4) == bytes([0xCA, 1, 0xDE, 0xCA])
    assert not bench.warnings


def test_a_write_wraps_in_its_page_and_a_read_in_its_block():
    bench = Bench()
    bench.write(0x017E, b"abcd")
    assert bench.eeprom.read(0x100, 2) == b"cd"
    assert bench.eeprom.read(0x17E, 3) == b"ab\xff"
    bench.write(0xFFFE, b"yz", 0xA8)
    bench.write(0x0000, b"st", 0xA8)
    assert bench.eeprom.read(0x1FFFE, 2) == b"yz"
    assert bench.read(0xFFFE, 4, 0xA8) == b"yzst"


def test_a_small_eeprom_has_three_bits_of_its_own():
    bench = Bench(bus=1, size=1 << 12, page=32)
    bench.write(0x0FFE, b"abcd", 0xA2)
    assert bench.eeprom.read(0x0FFE, 2) == b"ab"
    assert bench.eeprom.read(0x0FE0, 2) == b"cd"
    bench.write(0, b"no", 0xAA)
    assert bench.get("NACK") == 1
    assert bench.eeprom.read(0, 2) == b"\xff\xff"


def test_nothing_is_acknowledged_while_a_page_is_written():
    bench = Bench(write_time=500_000)
    bench.write(0, b"a")
    assert bench.get("NACK") == 0
    bench.run(START, byte(0xA0), STOP, END)
    assert bench.get("NACK") == 1
    assert bench.get("NACK") == 0, "a load clears it"
    bench.env.run(until=1_000_000)
    bench.run(START, byte(0xA0), STOP, END)
    assert bench.get("NACK") == 0
    assert not bench.warnings


def test_a_start_in_place_of_a_stop_gives_up_a_write():
    bench = Bench()
    bench.run(CONFIG | 4, START, byte(0xA0), byte(0), byte(0), byte(0x55), START, STOP)
    assert bench.eeprom.read(0, 1) == b"\xff"


def test_a_missing_device_does_not_acknowledge_and_is_warned_of_once():
    bench = Bench(size=0)
    for address in (0xA0, 0xA2, 0xA3):
        bench.run(START, byte(address), READ_NACK, STOP, END, received=1)
        assert bench.l2.load(RX & 0xFFFFF, 1) == b"\xff"
        assert bench.get("NACK") == 1
    assert len(bench.ends()) == 3
    assert bench.warnings == ["i2c_0: no device on its bus has address 0x50"]


class Line:
    """Logs the cycles in which the lines change; holds SDA as a pattern says, bit by bit."""

    def __init__(self, pattern=()):
        self.log, self.scl, self.pattern = [], 1, list(pattern)

    def answers(self, control):
        return True

    def lines(self, scl, sda, cycle):
        self.log.append((cycle, scl, sda))
        return 1


@pytest.mark.parametrize("divider", [0x40, 0x7C, 0x100])
def test_a_bit_takes_four_times_the_divider_and_what_its_clock_is_seen_late(divider):
    """The counter stands from the rise of SCL until it has passed flip-flops and filter."""
    line = Line()
    bench = Bench(line)
    bench.run(CONFIG | divider, START, byte(0x55), STOP, END)
    clock = [now for (_, before, _), (now, scl, _) in pairwise(line.log) if scl > before]
    (period,) = {now - before for before, now in pairwise(clock[1:9])}
    assert 4 * (divider + 1) <= period <= 4 * (divider + 1) + 3 * (divider // 4 + 1) + 6


def reference(state, divider, commands, driven=1):
    """Bits one after the other, each cycle a step: the cycle in which each ends."""
    ends, cycle = [], 0
    for command in commands:
        while True:
            state = step(state, divider, command, 1, driven)
            command = Bit.NONE
            cycle += 1
            assert not state.is_lost
            if state.is_done:
                break
        ends.append(cycle)
    return ends, state


@pytest.mark.parametrize("divider", [0x10, 0x11, 0x40, 0x101])
def test_bits_that_are_found_at_once_end_as_those_that_are_stepped_through(divider):
    draw = random.Random(divider)
    state = rest(BusState(), divider, draw.randint(0, 5000), 1)
    commands = [Bit.START, *draw.choices([Bit.WRITE, Bit.READ], k=20), Bit.STOP, Bit.WAIT]
    ends, last = reference(state, divider, commands)
    cycle, mine = 0, []
    for command in commands:
        state = state._replace(is_done=0)
        while not state.is_done:
            passed, state = advance(state, divider, int(command), 1, 1)
            cycle, command = cycle + passed, Bit.NONE
        mine.append(cycle)
    assert (mine, state) == (ends, last)


@pytest.mark.parametrize("divider", [0, 1, 3, 0x40, 0x100])
def test_rest_is_the_same_as_its_steps(divider):
    draw = random.Random(divider)
    for _ in range(20):
        cycles = draw.randint(0, 4000)
        state = BusState(counter=draw.randint(0, 300), filter_count=draw.randint(0, 80))
        stepped = state
        for _ in range(cycles):
            stepped = step(stepped, divider, Bit.NONE, 0, 1)
        assert rest(state, divider, cycles, 1) == stepped


def test_commands_without_bits_take_the_cycles_of_their_states():
    """END 1, CONFIG 2, REPEAT 2, REPEAT of none 3: those before END move it by so much."""
    bench = Bench()
    bench.run(END)
    (first,) = bench.ends()
    assert first == 10 + 3
    for commands, cycles in (
        ((CONFIG | 0x100,), 2),
        ((REPEAT | 5,), 2),
        ((REPEAT,), 3),
        ((REPEAT | 256,), 3),
        ((11 << 28,), 1),
        ((3 << 28 | 0x1000,), 1),
    ):
        bench.log.clear()
        bench.run(*commands, END)
        assert bench.ends() == [first + cycles], commands


def test_wait_takes_one_bit_more_than_it_says():
    ends = []
    for bits in (0, 1, 4):
        bench = Bench()
        bench.run(CONFIG | 9, WAIT | bits, END)
        ends += bench.ends()
    assert ends[1] - ends[0] == 40
    assert ends[2] - ends[1] == 120


def test_a_read_waits_for_room_and_loses_nothing():
    bench = Bench()
    bench.eeprom.write(0, bytes(range(16)))
    commands = START, byte(0xA0), byte(0), byte(0), START, byte(0xA1), REPEAT | 15, READ_ACK
    bench.run(CONFIG | 8, *commands, READ_NACK, STOP, END)
    assert bench.ends() == [], "six bytes wait, the seventh has no room"
    bench.channel("RX", RX, 16)
    bench.env.run(until=bench.env.now + 100_000)
    assert len(bench.ends()) == 1
    assert bench.l2.load(RX & 0xFFFFF, 16) == bytes(range(16))


def test_channels_are_set_up_and_triggers_are_waited_for_by_commands():
    bench = Bench()
    bench.eeprom.write(0, b"content!")
    bench.udma.write(4, 0x00_A5_00_00, 4)
    bench.run(
        *(3 << 28 | RX & 0xFFFFF, 5 << 28 | 8, WAIT_EVENT | 2 << 24, CONFIG | 8),
        *(START, byte(0xA0), byte(0), byte(0), START, byte(0xA1)),
        *(REPEAT | 7, READ_ACK, READ_NACK, STOP, END),
    )
    assert bench.ends() == []
    bench.udma.hear(0xA4)
    bench.udma.hear(0xA5)
    bench.env.run(until=bench.env.now + 50_000)
    assert len(bench.ends()) == 1
    assert bench.l2.load(RX & 0xFFFFF, 8) == b"content!"


def test_arbitration_that_a_fast_clock_loses_hangs_until_a_reset():
    class Holds(Line):
        def lines(self, scl, sda, cycle):
            super().lines(scl, sda, cycle)
            return 0 if len(self.log) > 6 else 1

    bench = Bench(Holds())
    bench.run(CONFIG | 0x20, START, byte(0xFF), byte(0xFF), STOP, END)
    assert bench.ends() == []
    assert bench.get("STATUS") & 2
    assert bench.warnings == [
        "i2c_0: arbitration is lost with a divider of 32: it hangs, as the RTL does, until SETUP "
        "resets it"
    ]


def test_a_stop_that_is_seen_late_loses_the_arbitration_of_what_follows():
    """SDA is seen to rise after two flip-flops and two samples: within STOP, or in the next bit."""
    for divider, ends in ((3, 0), (16, 1)):
        bench = Bench()
        bench.run(CONFIG | divider, START, STOP, WAIT, END)
        assert (len(bench.ends()), bench.get("STATUS") >> 1) == (ends, 1 - ends)


def test_reset_drops_what_waits_and_lets_zeros_into_rx():
    bench = Bench()
    bench.eeprom.write(0, b"\x11")
    bench.run(START, byte(0xA0), WRITE, END, cycles=20_000)
    assert bench.ends() == [], "it waits for TX"
    bench.put("SETUP", 1)
    assert bench.get("SETUP") == 1
    bench.env.run(until=bench.env.now + 100)
    bench.put("SETUP", 0)
    bench.env.run(until=bench.env.now + 100)
    assert bench.read(0, 7) == bytes(6) + b"\x11"
    assert bench.warnings == ["i2c_0: held in reset, its RX gets zeros, as in the RTL"]


def test_registers_read_as_the_rtl_has_them():
    bench = Bench()
    assert [bench.get(f"{side}_CONFIG") for side in ("RX", "TX", "CMD")] == [0, 0, 4]
    bench.channel("RX", RX, 7)
    assert bench.get("RX_CONFIG") == 0x10
    assert (bench.get("RX_ADDRESS"), bench.get("RX_SIZE")) == (RX, 7)
    bench.put("STATUS", 3)
    bench.put("NACK", 1)
    assert (bench.get("STATUS"), bench.get("NACK")) == (0, 0)


def test_a_restored_master_and_its_eeprom_go_on():
    bench, other = Bench(), Bench()
    bench.write(0x10, b"kept")
    bench.run(START, byte(0xA0), byte(0), byte(0x10), END)
    for part, to in zip(bench.udma.parts(), other.udma.parts(), strict=True):
        _remember(to, _plain(part))
    other.env.run(until=bench.env.now)
    rest_of_it = START, byte(0xA1), REPEAT | 3, READ_ACK, READ_NACK, STOP, END
    assert other.run(*rest_of_it, received=4) == bench.run(*rest_of_it, received=4) == b"kept"
    assert other.ends() == bench.ends()[-1:]


def test_sizes_and_pages_are_powers_of_two():
    for field, value in (("size", 3 << 12), ("page", 3)):
        with pytest.raises(ConfigError, match=f"{field} {value} is no power of two"):
            load_chip("pulp", {f"eeprom_0.{field}": value})


def test_the_content_comes_from_a_file_and_goes_to_one(tmp_path):
    (tmp_path / "before").write_bytes(b"before")
    bench = Bench(load=str(tmp_path / "before"), size=1 << 12)
    assert bench.read(0, 6) == b"before"


def test_an_eeprom_ignores_what_is_not_for_it():
    eeprom = Eeprom(BoardMemory(1 << 12), 0, 32, 0)
    assert [eeprom.answers(control) for control in (0xA0, 0xA1, 0xA2, 0xB0, 0x50)] == [
        *(True, True, False, False, False)
    ]


FIRMWARE = """
_start:
    li s0, 0x1A102000
    li t0, 4
    sw t0, 0(s0)                 # clock of the first I2C master
    li s1, 0x1A106000
    lw t0, 4(s1)
    li t1, 1 << 11
    not t1, t1
    and t0, t0, t1
    sw t0, 4(s1)                 # event 11 to the fabric controller
    la t1, received
    sw t1, 0x180(s0)
    li t0, 2
    sw t0, 0x184(s0)
    li t0, 0x10
    sw t0, 0x188(s0)
    la t1, commands
    sw t1, 0x1A0(s0)
    li t0, 44
    sw t0, 0x1A4(s0)
    li t0, 0x10
    sw t0, 0x1A8(s0)
    li s2, 0x1A109800
wait:
    lw t0, 0x0C(s2)
    srli t0, t0, 26
    andi t0, t0, 1
    beqz t0, wait
    lw a0, 0x1B8(s0)             # NACK: 0
    la t1, received
    lbu t2, 1(t1)
    add a0, a0, t2
    li t0, 0x1A104000
    lui t1, 0x80000
    or a0, a0, t1
    sw a0, 0xA0(t0)
    wfi
.data
.align 2
commands:
    .word 0xE0000010, 0x00000000, 0x700000A0, 0x70000012, 0x70000034, 0x00000000, 0x700000A1
    .word 0x40000000, 0x60000000, 0x20000000, 0x90000000
received:
    .word 0
"""


def test_firmware_reads_bytes_in_both_engines_in_the_same_cycles(tmp_path):
    (tmp_path / "content").write_bytes(bytes(0x1235) + b"\x2a")
    fields = {"size": 1 << 16, "load": str(tmp_path / "content"), "save": str(tmp_path / "after")}
    chip = load_chip("pulp", {f"eeprom_0.{name}": value for name, value in fields.items()})
    program = assemble(FIRMWARE, profile("ri5cy", "x"))
    results = [run_program(program, chip, engine=e, max_cycles=30_000) for e in ENGINES]
    for result in results:
        assert result.exit.code == 0x2A, result.exit.message
        assert not result.warnings
    assert results[0].cycles == results[1].cycles
    assert (tmp_path / "after").read_bytes()[:0x1236] == bytes(0x1235) + b"\x2a"

"""The uDMA and its UART by hand: cycles, registers and losses as the RTL has them."""

import pytest
from simpy import Environment

from soc.address_map.udma import UART
from soc.board.uart_source import Source
from soc.peripherals.bus import BusError
from soc.peripherals.uart import Uart
from soc.peripherals.udma import L2Window, Udma

SETUP = 0x0306  # eight bits, one stop bit, both directions on
CONFIG = {"RX": 0x1A102088, "TX": 0x1A102098}


class Memory:
    """L2 that logs when it is read and written."""

    base, mask = 0x1C000000, 0xFFFF

    def __init__(self, env, log):
        self.env, self.log, self.bytes = env, log, bytearray(range(256)) * 256

    def place(self, address, size):
        return address & self.mask

    def load(self, offset, size):
        self.log.append((self.env.now, "read", offset))
        return bytes(self.bytes[offset : offset + size])

    def store(self, offset, data):
        self.log.append((self.env.now, "write", offset, data[0]))
        self.bytes[offset : offset + len(data)] = data


class Bench:
    """A uDMA with a UART, its clock on."""

    def __init__(self, divider=9, source=None, loopback=False, setup=SETUP):
        self.env, self.log, self.warnings = Environment(), [], []
        memory = Memory(self.env, self.log)
        self.udma = Udma(
            self.env,
            memory,
            self.warnings.append,
            lambda number: self.log.append((self.env.now, "event", number)),
            {"uart": lambda ports: Uart(ports, self.sent, source, loopback)},
        )
        self.udma.write(0, 1, 4)
        self.put("SETUP", divider << 16 | setup)

    def sent(self, byte):
        self.log.append((self.env.now, "sent", byte))

    def put(self, name, value):
        self.udma.write(0x80 + UART.offset(name), value, 4)

    def get(self, name):
        return self.udma.read(0x80 + UART.offset(name), 4)

    def start(self, side, size, address=0x1C000010, config=0x10):
        self.put(f"{side}_ADDRESS", address)
        self.put(f"{side}_SIZE", size)
        self.put(f"{side}_CONFIG", config)

    def run(self, until):
        self.env.run(until=until)

    def cycles_of(self, what):
        return [cycle for cycle, name, *_ in self.log if name == what]


@pytest.mark.parametrize(
    ("size", "event"), [(1, 3), (2, 4), (8, 22), (9, 27), (12, 323)], ids=lambda n: str(n)
)
def test_the_event_comes_with_the_last_read_of_l2(size, event):
    bench = Bench()
    bench.run(1000)
    bench.start("TX", size)
    bench.run(4000)
    reads = [3, 4, 9, 10, 15, 16, 21, 22, 27, 119, 221, 323]
    assert [cycle - 1000 for cycle in bench.cycles_of("read")] == reads[:size]
    assert [entry for entry in bench.log if entry[1] == "event"] == [(1000 + event, "event", 1)]


@pytest.mark.parametrize("divider", [9, 433])
def test_status_and_enable_change_in_the_cycles_of_the_rtl(divider):
    bench = Bench(divider)
    bench.run(100)
    bench.start("TX", 1)
    seen = {"STATUS": [], "TX_CONFIG": []}
    for cycle in range(100, 200 + 10 * divider):
        for name, values in seen.items():
            if not values or values[-1][1] != bench.get(name):
                values.append((cycle - 100, bench.get(name)))
        bench.run(cycle + 1)
    assert seen["STATUS"] == [(0, 0), (13, 1), (14 + 10 * (divider + 1), 0)]
    assert seen["TX_CONFIG"] == [(0, 0x10), (3, 0)] or seen["TX_CONFIG"] == [(0, 0x10), (2, 0)]


def test_characters_follow_each_other_after_one_idle_cycle():
    bench = Bench()
    bench.run(100)
    bench.start("TX", 3)
    bench.run(1000)
    assert [
        b - a for a, b in zip(*[bench.cycles_of("sent")[i:] for i in (0, 1)], strict=False)
    ] == [
        102,
        102,
    ]
    assert [entry[2] for entry in bench.log if entry[1] == "sent"] == [0x10, 0x11, 0x12]


def test_a_new_divider_is_taken_when_a_direction_is_switched_on():
    bench = Bench(9)
    bench.put("SETUP", 99 << 16 | SETUP)
    bench.start("TX", 1)
    bench.run(2000)
    assert bench.cycles_of("sent") == [112]
    bench.put("SETUP", 99 << 16 | 6)
    bench.put("SETUP", 99 << 16 | SETUP)
    bench.start("TX", 1)
    bench.run(9000)
    assert bench.cycles_of("sent")[1] == 2000 + 12 + 10 * 100


def test_a_second_transfer_waits_and_takes_its_address_when_the_first_ends():
    bench = Bench()
    bench.start("TX", 1)
    bench.start("TX", 2, 0x1C000080)
    assert bench.get("TX_CONFIG") == 0x30
    bench.put("TX_ADDRESS", 0x1C000090)
    bench.run(1000)
    assert [entry[2] for entry in bench.log if entry[1] == "sent"] == [0x10, 0x90, 0x91]


def test_six_characters_wait_for_a_transfer_and_the_next_is_lost():
    bench = Bench(loopback=True)
    bench.start("TX", 8)
    bench.run(2000)
    bench.start("RX", 8, 0x1C001000)
    bench.run(2100)
    writes = [(cycle - 2000, value) for cycle, what, *_, value in bench.log if what == "write"]
    assert writes == [(5 + i, 0x10 + i) for i in range(6)]  # EN + 4, and in L2 one cycle later
    assert [bench.get("ERROR"), bench.get("ERROR")] == [1, 0]
    assert bench.get("RX_SIZE") == 2
    assert bench.warnings == ["uart: a character is lost: 6 wait, no transfer takes them"]


def test_a_received_character_is_written_and_its_event_comes_in_v_plus_6():
    bench = Bench(loopback=True)
    bench.run(100)
    bench.start("RX", 1, 0x1C001000)
    bench.start("TX", 1)
    bench.run(400)
    v = 100 + 11 + 3 + 4 + 9 * 10
    assert (v + 6, "event", 0) in bench.log
    assert (v + 7, "write", 0x1000, 0x10) in bench.log


def test_a_source_waits_for_transfers_and_for_polling():
    source = Source(bytes)
    source.data += b"abcdefgh"
    bench = Bench(source=source)
    bench.run(1000)
    assert bench.log == []
    bench.start("RX", 3, 0x1C001000)
    bench.run(2000)
    assert bytes(entry[3] for entry in bench.log if entry[1] == "write") == b"abc"
    bench.put("SETUP", 9 << 16 | SETUP | 0x10)
    assert bench.get("VALID") == 0
    bench.run(3000)
    assert (bench.get("VALID"), bench.get("DATA")) == (1, ord("d"))
    bench.get("VALID")
    bench.run(4000)
    assert bench.get("DATA") == ord("e")


def test_stores_to_a_gated_peripheral_are_lost_and_warned_of_once():
    bench = Bench()
    bench.udma.write(0, 0, 4)
    bench.start("TX", 1)
    bench.run(100)
    assert bench.log == []
    assert bench.warnings == ["udma: store to uart, whose clock is off, is lost: set bit 0 at 0x0"]


def test_blocks_that_do_not_exist_never_answer():
    message = r"^udma: block 18 does not exist \(there are 0 to 17\) and never answers: the hart"
    with pytest.raises(BusError, match=message):
        Bench().udma.read(18 * 0x80, 4)


def test_what_is_not_modelled_remembers_and_says_so():
    bench = Bench()
    bench.udma.write(0, 1 << 5, 4)
    bench.udma.write(6 * 0x80 + 4, 7, 4)
    assert bench.udma.read(6 * 0x80 + 4, 4) == 7
    assert bench.warnings == ["i2s: this peripheral is not modelled: its registers only remember"]


def test_a_transfer_past_the_end_of_l2_begins_anew_and_is_warned_of():
    import numpy as np

    class Chip:
        l2 = np.arange(16, dtype=np.int32)

    warnings = []
    window = L2Window(Chip, 0x1C000000, 64, warnings.append)
    assert window.load(window.place(0x1C00003C, 8), 8) == bytes([15, 0, 0, 0, 0, 0, 0, 0])
    window.place(0x1C00003C, 8)
    assert warnings == [
        "udma: 8 bytes at 0x1c00003c go past 0x1c00003f, the last byte that the uDMA reaches; it "
        "goes on at 0x1c000000"
    ]

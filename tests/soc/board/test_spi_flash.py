"""A NOR flash alone, its commands clocked in bit by bit."""

from soc.board.memory import BoardMemory
from soc.board.spi_flash import SpiFlash

PROGRAM, ERASE = 700, 5000


class Bench:
    """A flash that a master without a controller speaks to."""

    def __init__(self, content: bytes = b"") -> None:
        self.cycle, self.warnings = 0, list[str]()
        memory = BoardMemory(1 << 16, content)
        self.flash = SpiFlash(memory, PROGRAM, ERASE, lambda: self.cycle, self.warnings.append)

    def command(self, text: str, answer: int = 0) -> bytes:
        """Send bytes in hexadecimal, then read so many."""
        self.flash.select()
        for byte in bytes.fromhex(text):
            self.clocked(byte)
        read = bytes(self.clocked(0) for _ in range(answer))
        self.flash.deselect()
        return read

    def clocked(self, byte: int) -> int:
        driven = [self.flash.clock(byte >> 7 - place & 1) for place in range(8)]
        return int("".join(map(str, driven)), 2)


def test_reads_go_on_from_their_address_with_and_without_dummy_clocks() -> None:
    bench = Bench(bytes(range(64)))
    assert bench.command("03 000010", 4) == bytes(range(16, 20))
    assert bench.command("13 00000010", 4) == bytes(range(16, 20))
    assert bench.command("0B 000010 00", 4) == bytes(range(16, 20))
    assert bench.command("03 00FFFF", 2) == b"\xff\x00"  # the first byte follows the last one


def test_a_program_clears_bits_and_is_busy_for_its_time() -> None:
    bench = Bench(b"\xf0" * 4)
    bench.command("06")
    assert bench.command("05", 1) == b"\x02"  # write enabled
    bench.command("02 000001 3C")
    assert bench.command("05", 1) == b"\x03"  # busy
    bench.cycle = PROGRAM - 1
    assert bench.command("05", 1) == b"\x03"
    bench.cycle = PROGRAM
    assert bench.command("05", 1) == b"\x00"
    assert bench.command("03 000000", 4) == b"\xf0\x30\xf0\xf0"
    assert bench.warnings == []


def test_a_program_without_write_enable_changes_nothing() -> None:
    bench = Bench(b"\xf0")
    bench.command("02 000000 00")
    assert bench.command("03 000000", 1) == b"\xf0"
    assert bench.warnings == ["flash: command 0x02 without write enable (0x06) is ignored"]


def test_an_erase_sets_the_bits_of_its_sector_alone() -> None:
    bench = Bench(bytes(3 * 4096))
    bench.command("06")
    bench.command("20 001234")
    bench.cycle = ERASE
    expected = bytes(4096) + b"\xff" * 4096 + bytes(4096)
    assert bench.flash.memory.read(0, 3 * 4096) == expected

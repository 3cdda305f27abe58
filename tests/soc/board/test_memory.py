"""Memories on the board: pages that exist where something was written, and files."""

import random

import pytest

from soc.board.memory import PAGE, BoardMemory, memory_of, save_memory
from soc.config.toml import ConfigError


def test_reads_and_writes_are_those_of_one_array() -> None:
    generator = random.Random(1)
    memory, array = BoardMemory(4 * PAGE, b"before"), bytearray(b"before".ljust(4 * PAGE, b"\xff"))
    for _ in range(200):
        address, size = generator.randrange(4 * PAGE), generator.choice([1, 4, PAGE, 2 * PAGE + 1])
        data = generator.randbytes(size)[: 4 * PAGE - address]
        memory.write(address, data)
        array[address : address + len(data)] = data
        start = generator.randrange(4 * PAGE)
        assert memory.read(start, size) == bytes(array[start : start + size]).ljust(size, b"\xff")
    assert memory.content() == array


def test_past_the_end_reads_find_0xff_and_writes_are_lost() -> None:
    memory = BoardMemory(PAGE)
    memory.write(PAGE - 2, b"abcd")
    memory.write(PAGE, b"e")
    assert memory.read(PAGE - 3, 6) == b"\xffab\xff\xff\xff"
    assert memory.content()[-2:] == b"ab"


def test_a_file_is_the_content_at_reset_or_is_refused_with_its_field(tmp_path) -> None:
    file, missing = tmp_path / "in", tmp_path / "none"
    file.write_bytes(b"text")
    memory = memory_of(PAGE, str(file), "hyperram.load")
    assert memory.content() == b"text".ljust(PAGE, b"\xff")
    assert memory_of(PAGE, "", "hyperram.load").content() == b"\xff" * PAGE
    save_memory(memory, str(tmp_path / "out"), "hyperram.save")
    assert (tmp_path / "out").read_bytes() == memory.content()
    file.write_bytes(bytes(PAGE + 1))
    with pytest.raises(ConfigError, match=r"^hyperram.load '.*in': more than 4096 bytes$"):
        memory_of(PAGE, str(file), "hyperram.load")
    with pytest.raises(ConfigError, match=r"^hyperram.load '.*none': No such file or directory$"):
        memory_of(PAGE, str(missing), "hyperram.load")
    with pytest.raises(ConfigError, match=r"^hyperram.save '.*': Is a directory$"):
        save_memory(memory, str(tmp_path), "hyperram.save")

"""Names of regions in ELF files: what is written is read; mistakes are refused."""

import re
from dataclasses import replace

import pytest

from benchmarks.workload import elf
from isa.elf.region_names import MOST_REGIONS, SECTION, read_region_names, write_region_names
from isa.program import ElfError, Program
from soc.prelude.counters import REGIONS

NAMES = {0: "layer 1", 17: "größe", MOST_REGIONS - 1: "last"}


def test_there_are_as_many_as_the_chip_counts() -> None:
    assert MOST_REGIONS == REGIONS


def test_a_program_keeps_them() -> None:
    program = replace(elf("hello"), regions=NAMES)
    assert Program.from_elf(program.to_elf()).regions == NAMES
    assert Program.from_elf(elf("hello").to_elf()).regions == {}


def test_the_first_name_of_a_number_counts_and_terminals_are_safe() -> None:
    assert read_region_names(b"1 one\0\x001 two\0002 \x1b[31m\0") == {1: "one", 2: "\\x1b[31m"}
    assert read_region_names(write_region_names(NAMES)) == NAMES


@pytest.mark.parametrize("entry", [b"one", b"1", b"1 ", b"-1 a", b"1024 a", b"00001 a", b"\xff x"])
def test_what_is_no_number_and_name_is_refused(entry: bytes) -> None:
    with pytest.raises(ValueError, match="is no number below 1024 and a name"):
        read_region_names(b"0 good\0" + entry + b"\0")


def test_a_file_with_such_an_entry_is_named() -> None:
    data = replace(elf("hello"), regions={1: "name"}).to_elf().replace(b"1 name\0", b"1xname\0")
    with pytest.raises(ElfError, match=re.escape(f"it: {SECTION}: b'1xname' is no number")):
        Program.from_elf(data, "it")

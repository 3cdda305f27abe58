"""The content of the boot ROM, from a file of the user's: the RTL's own is no part of this project.

    an ELF file             its segments, at the ROM's addresses
    a name ending in .hex   words in hexadecimal, as Verilog's $readmemh takes them
    a name ending in .sv    words 32'b... or 32'h..., the last one first: a packed array, as
                            PULPissimo's hw/asic_autogen_rom.sv has it
    any other               plain bytes, from the first address on

What the file does not say is 0.
"""

import re
from pathlib import Path

import numpy as np

from isa.elf.reader import ElfError, read
from soc.address_map.memory_map import BOOT_ROM
from soc.chip.peripherals_spec import BootRomSpec
from soc.config.toml import ConfigError

FIELD = "boot_rom.load"
MOST = 1 << 24
"""Bytes of a file that are read at most."""

MAGIC = b"\x7fELF"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ELEMENT = re.compile(r"\b32'(?:b([01_]+)|h([0-9a-fA-F_]+))")
WORD = re.compile(r"@?[0-9a-fA-F][0-9a-fA-F_]{0,19}")


def boot_rom(spec: BootRomSpec, is_bench: bool) -> np.ndarray:
    """The words of the ROM; none if the chip has no ROM.

    is_bench    on the test bench of the controller's RTL the ROM answers in any case
    raises      ConfigError if the file cannot be read, is malformed or does not fit
    """
    rom = np.zeros(spec.size if spec.load or is_bench else 0, np.uint8)
    if spec.load:
        try:
            _fill(rom, Path(spec.load))
        except (ElfError, ValueError) as error:
            raise ConfigError([f"{FIELD} {spec.load!r}: {error}"]) from None
        except OSError as error:
            raise ConfigError([f"{FIELD} {spec.load!r}: {error.strerror}"]) from None
    return rom.view(np.int32)


def _fill(rom: np.ndarray, file: Path) -> None:
    """Raises OSError, ElfError or ValueError: what is wrong with the file."""
    with file.open("rb") as stream:
        data = stream.read(MOST)
    if data.startswith(MAGIC):
        for segment in read(data).segments:
            _place(rom, segment.address - BOOT_ROM, bytes(segment.data), BOOT_ROM)
    elif file.suffix == ".hex":
        _fill_words(rom, data.decode("latin-1"))
    elif file.suffix == ".sv":
        _fill_array(rom, data.decode("latin-1"))
    else:
        if len(data) % 4:
            raise ValueError(f"{len(data)} bytes are no whole number of words")
        _place(rom, 0, data, 0)


def _fill_words(rom: np.ndarray, text: str) -> None:
    offset = 0
    for word in COMMENT.sub(" ", text).split():
        number = int(word.lstrip("@").replace("_", ""), 16) if WORD.fullmatch(word) else -1
        if not 0 <= number < 1 << 32:
            hint = ": Intel's format, make plain bytes of it (objcopy -I ihex -O binary)"
            raise ValueError(
                f"{word[:20]!r} is no word of 8 hexadecimal digits"
                + (hint if word.startswith(":") else "")
            )
        if word.startswith("@"):
            offset = 4 * number
        else:
            _place(rom, offset, number.to_bytes(4, "little"), 0)
            offset += 4


def _fill_array(rom: np.ndarray, text: str) -> None:
    elements = ELEMENT.findall(COMMENT.sub(" ", text))
    if not elements:
        raise ValueError("there is no word like 32'b... or 32'h... in it")
    words = [int(bits, 2) if bits else int(digits, 16) for bits, digits in elements]
    _place(rom, 0, b"".join((w & 0xFFFFFFFF).to_bytes(4, "little") for w in words[::-1]), 0)


def _place(rom: np.ndarray, offset: int, data: bytes, base: int) -> None:
    if offset < 0 or offset + len(data) > rom.size:
        start, end = base + offset, base + offset + len(data)
        raise ValueError(
            f"{start:#x}..{end - 1:#x} is outside of the ROM, {base:#x}..{base + rom.size - 1:#x} "
            "(boot_rom.size)"
        )
    rom[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

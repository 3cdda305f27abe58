"""The .riscv.attributes section: what a program was compiled for. Read and written.

Source: RISC-V ELF psABI 1.0, chapter 10 "Attributes"; layout from the Arm ABI addenda, section 2.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

STACK_ALIGN, ARCH = 4, 5  # tags: an even tag has a number, an odd one a string
FILE = 1  # sub-subsection whose attributes hold for the whole file
VENDOR = b"riscv\0"

RVC = 1  # e_flags


def read_architecture(section: bytes) -> str | None:
    """The architecture string, "rv32i2p1_m2p0_zfinx1p0"; None if absent or malformed."""
    position = 1
    while section[:1] == b"A" and position + 4 <= len(section):
        length = int.from_bytes(section[position : position + 4], "little")
        body = section[position + 4 : position + length]
        if body.startswith(VENDOR) and body[len(VENDOR) : len(VENDOR) + 1] == bytes([FILE]):
            size = int.from_bytes(body[len(VENDOR) + 1 : len(VENDOR) + 5], "little")
            return _read_file_attributes(body[len(VENDOR) + 5 : len(VENDOR) + size])
        position += max(length, 4)
    return None


def _read_file_attributes(body: bytes) -> str | None:
    position = 0
    while position < len(body):
        tag, position = _read_uleb128(body, position)
        if tag % 2 == 0:
            _, position = _read_uleb128(body, position)
            continue
        text, _, _ = body[position:].partition(b"\0")
        if tag == ARCH:
            return text.decode("ascii", "replace")
        position += len(text) + 1
    return None


def _read_uleb128(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            break
    return value, position


def write_architecture(architecture: str, stack_align: int = 16) -> bytes:
    """A section that says the architecture and the alignment of the stack in bytes."""
    attributes = bytes([STACK_ALIGN, stack_align, ARCH]) + architecture.encode() + b"\0"
    file = bytes([FILE]) + (len(attributes) + 5).to_bytes(4, "little") + attributes
    body = VENDOR + file
    return b"A" + (len(body) + 4).to_bytes(4, "little") + body


@lru_cache
def extensions(architecture: str) -> frozenset[str]:
    """Names without versions: "rv32i2p1_m2p0_zfinx1p0" -> i, m, zfinx.

    Single letters may follow each other ("rv32imc"), and a name of several letters may follow them
    ("rv32imcxpulpv2").
    """
    base, *names = re.sub(r"\d+p\d+", "_", architecture.lower().removeprefix("rv32")).split("_")
    letters = base.split("x")[0]
    return frozenset([*letters, base[len(letters) :], *names]) - {""}


def architecture(used: Iterable[str], has_float_registers: bool) -> str:
    """The architecture of a program that uses instructions of these extensions (isa.declare names).

    With floats in x registers, RV32F is Zfinx. Every part of Xpulp counts as xpulpv2.
    """
    names = set()
    for extension in used:
        letters = extension.removeprefix("rv32") if extension.startswith("rv32") else ""
        if extension.startswith("xf") or "f" in letters:
            names.add("f" if has_float_registers else "zfinx")
        names.update(letters.replace("f", ""))
        if extension.startswith(("xf", "xcv", "zi")):
            names.add(extension)
        elif extension.startswith("xpulp"):
            names.add("xpulpv2")
    letters = "".join(letter for letter in "mfc" if letter in names)
    several = sorted(sorted(names - set("imfc")), key=lambda name: "zx".index(name[0]))
    return "_".join([f"rv32i{letters}", *several])


def float_registers(architecture: str | None, flags: int) -> str | None:
    """Registers that hold floats: "f", "x", or None if the file does not say.

    Zfinx puts them in x registers, and so do PULP's own tool chains where there is no F extension.
    """
    names = extensions(architecture or "")
    if "zfinx" in names:
        return "x"
    if "f" in names or flags >> 1 & 3:
        return "f"
    return "x" if any(name.startswith(("xpulp", "xgap")) for name in names) else None

"""Directives of assembly source: GNU's, as far as hand-written firmware and gcc's output use them.

Source: GNU as manual, sections "Pseudo Ops" and "RISC-V-Directives".
"""

import re
import struct
from collections.abc import Callable
from fractions import Fraction
from math import inf, isinf, nextafter

from isa.assembler.expression import ESCAPES, AsmError, Expression, tokenize
from isa.assembler.layout import Layout, Section

LONGEST_EXACT = 400  # characters of a decimal number that is rounded exactly

Directive = Callable[[Layout, list[str]], None]

ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|(.))", re.DOTALL)
KINDS = {"function": "function", "object": "object", "notype": "label"}
SECTION_KINDS = {  # first words of a section's name: writable, executable, holds zeros
    ".text": (False, True, False),
    ".init": (False, True, False),
    ".rodata": (False, False, False),
    ".srodata": (False, False, False),
    ".bss": (True, False, True),
    ".sbss": (True, False, True),
}


def _section(layout: Layout, arguments: list[str]) -> None:
    if not arguments:
        raise AsmError("a section needs a name")
    name = arguments[0].strip('"')
    stem = re.match(r"\.?[^.]*", name)
    writable, executable, is_zero = SECTION_KINDS.get(stem[0] if stem else "", (True, False, False))
    is_loaded = True
    if len(arguments) > 1:
        flags = arguments[1].strip('"')
        writable, executable, is_loaded = "w" in flags, "x" in flags, "a" in flags
    if len(arguments) > 2:
        is_zero = arguments[2].lstrip("@%") == "nobits"
    layout.select(Section(name, writable, executable, is_zero, is_loaded))


def _select(name: str) -> Directive:
    return lambda layout, arguments: _section(layout, [name])


def _previous(layout: Layout, arguments: list[str]) -> None:
    layout.part, layout.previous = layout.previous, layout.part


def _integers(size: int) -> Directive:
    low, high = -(1 << 8 * size - 1), (1 << 8 * size) - 1

    def emit(layout: Layout, arguments: list[str]) -> None:
        for argument in arguments:
            expression = layout.expression(argument)
            compute = _packed(layout, expression)
            if expression.is_constant:
                layout.append(compute(0))
            else:
                layout.later(size, compute)

    def _packed(layout: Layout, expression: Expression) -> Callable[[int], bytes]:
        def compute(address: int) -> bytes:
            value = expression.evaluate(lambda token: layout.lookup(token, address)).number
            if size < 8 and not low <= value <= high:
                raise AsmError(f"{value} does not fit {size} bytes, which hold {low} to {high}")
            return (value % (1 << 8 * size)).to_bytes(size, "little")

        return compute

    return emit


def _floats(layout: Layout, arguments: list[str]) -> None:
    for argument in arguments:
        layout.append(binary32(argument))


def binary32(text: str) -> bytes:
    """A decimal number as binary32, rounded once, to nearest.

    raises    AsmError if it is none, or out of range
    """
    try:
        value = float(text)
        if isinf(value) and "inf" not in text.lower():
            raise OverflowError
        if len(text) < LONGEST_EXACT and 1e-46 < abs(value) < inf:
            # Rounding to binary64 first may end on a tie of binary32 that the number is not.
            exact = Fraction(text)
            below, above = nextafter(value, -inf), nextafter(value, inf)
            if exact != value and struct.pack("<f", below) != struct.pack("<f", above):
                value = above if exact > value else below
        return struct.pack("<f", value)
    except ValueError:
        raise AsmError(f"{text[:40]!r} is no decimal number") from None
    except OverflowError:
        raise AsmError(f"{text[:40]} is too large for a float") from None


def _strings(end: bytes) -> Directive:
    def emit(layout: Layout, arguments: list[str]) -> None:
        for argument in arguments:
            tokens = tokenize(argument)
            if not tokens or any(token.kind != "string" for token in tokens):
                raise AsmError(f"{argument[:40]!r} is no string; write it in double quotes")
            for token in tokens:
                layout.append(unescaped(token.text) + end)

    return emit


def unescaped(text: str) -> bytes:
    r"""A string's bytes: UTF-8, with \n \t \\ \" \0 \ooo \xhh replaced."""
    pieces, position = [], 0
    for match in ESCAPE.finditer(text):
        octal, hexadecimal, character = match.groups()
        pieces.append(text[position : match.start()].encode("utf-8", "replace"))
        position = match.end()
        if character is not None:
            pieces.append(bytes([ESCAPES.get(character, ord(character) & 0xFF)]))
        else:
            value = int(octal, 8) if octal else int(hexadecimal[-2:], 16)
            pieces.append(bytes([value & 0xFF]))
    return b"".join([*pieces, text[position:].encode("utf-8", "replace")])


def _zeros(layout: Layout, arguments: list[str]) -> None:
    count, fill = _numbers(layout, arguments, 1, 2, ("count", "fill"))
    layout.skip(count or 0, fill or 0)


def _origin(layout: Layout, arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2:
        raise AsmError("write .org offset, or .org offset, fill")
    target = layout.value(arguments[0])
    if target.section not in (None, layout.part.name):
        raise AsmError(f"{arguments[0]} lies in another section")
    distance = target.number - layout.part.size
    if distance < 0:
        raise AsmError(f"cannot go back from offset {layout.part.size} to {target.number}")
    layout.skip(distance, layout.number(arguments[1]) if len(arguments) > 1 else 0)


def _alignment(is_power: bool) -> Directive:
    def align(layout: Layout, arguments: list[str]) -> None:
        value, fill, most = _numbers(layout, arguments, 1, 3, ("alignment", "fill", "most"))
        if is_power and not 0 <= (value or 0) < 32:
            raise AsmError(f"an alignment of 2^{value} bytes")
        layout.align(1 << (value or 0) if is_power else value or 1, fill, most)

    return align


def _numbers(
    layout: Layout, arguments: list[str], least: int, most: int, names: tuple[str, ...]
) -> list[int | None]:
    """Return arguments as numbers, None for those left out."""
    if not least <= len(arguments) <= most:
        raise AsmError(f"{len(arguments)} arguments; it takes {', '.join(names)}")
    values = [layout.number(argument) if argument else None for argument in arguments]
    return values + [None] * (most - len(values))


def _assign(layout: Layout, arguments: list[str]) -> None:
    if len(arguments) != 2:
        raise AsmError("write .set name, value")
    layout.assign(_name(arguments[0]), layout.value(arguments[1]))


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_.$][\w.$]*", text) or text == ".":
        raise AsmError(f"{text[:40]!r} is no name for a symbol")
    return text


def _global(layout: Layout, arguments: list[str]) -> None:
    layout.globals.update(map(_name, arguments))


def _type(layout: Layout, arguments: list[str]) -> None:
    if len(arguments) != 2 or (kind := arguments[1].lstrip("@%").lower()) not in KINDS:
        raise AsmError("write .type name, @function or .type name, @object")
    layout.kinds[_name(arguments[0])] = KINDS[kind]


def _size(layout: Layout, arguments: list[str]) -> None:
    if len(arguments) != 2:
        raise AsmError("write .size name, bytes")
    layout.sizes[_name(arguments[0])] = layout.number(arguments[1])


def _common(layout: Layout, arguments: list[str]) -> None:
    """Reserve uninitialised memory under a name, in .bss."""
    if not 2 <= len(arguments) <= 3:
        raise AsmError("write .comm name, bytes, alignment")
    name, (size, alignment) = _name(arguments[0]), _numbers(layout, arguments[1:], 1, 2, ())
    before = layout.part
    layout.part = layout.parts[".bss"]
    layout.align(alignment or 4)
    layout.define(name)
    layout.kinds[name], layout.sizes[name] = "object", size or 0
    layout.skip(size or 0)
    layout.part = before


def _file(layout: Layout, arguments: list[str]) -> None:
    """Number a source file for .loc: `.file 1 "a.c"`, or `.file 1 "folder" "a.c"`."""
    tokens = tokenize(" ".join(arguments))
    if tokens and tokens[0].kind == "number":
        names = [token.text for token in tokens if token.kind == "string"]
        layout.files[tokens[0].text] = "/".join(names[:2])


def _location(layout: Layout, arguments: list[str]) -> None:
    """Set the source line of what follows: `.loc 1 12 3` is line 12 of file 1."""
    tokens = tokenize(" ".join(arguments))
    if len(tokens) < 2 or tokens[0].text not in layout.files:
        raise AsmError("write .loc file line, with a file that .file has numbered")
    layout.line = layout.files[tokens[0].text], tokens[1].value


def _leb128(layout: Layout, arguments: list[str]) -> None:
    """Skip numbers of debug information, which is not loaded."""
    if layout.part.is_loaded:
        raise AsmError("numbers in LEB128 are for debug information")


def _ignore(layout: Layout, arguments: list[str]) -> None:
    """Do nothing: the directive changes neither code nor data."""


OPTIONS = "rvc norvc push pop relax norelax pic nopic".split()


def _option(layout: Layout, arguments: list[str]) -> None:
    """Check the name of an option. None has an effect: code is never compressed or relaxed."""
    if arguments not in [[option] for option in OPTIONS] and arguments[:1] != ["arch"]:
        raise AsmError(
            f"there is no option {', '.join(arguments)[:40]!r}; there are {', '.join(OPTIONS)}"
        )


DIRECTIVES: dict[str, Directive] = {
    ".section": _section,
    ".previous": _previous,
    ".globl": _global,
    ".global": _global,
    ".type": _type,
    ".size": _size,
    ".comm": _common,
    ".lcomm": _common,
    ".set": _assign,
    ".equ": _assign,
    ".equiv": _assign,
    ".org": _origin,
    ".align": _alignment(is_power=True),
    ".p2align": _alignment(is_power=True),
    ".balign": _alignment(is_power=False),
    ".zero": _zeros,
    ".space": _zeros,
    ".skip": _zeros,
    ".float": _floats,
    ".single": _floats,
    ".ascii": _strings(b""),
    ".asciz": _strings(b"\0"),
    ".string": _strings(b"\0"),
    ".option": _option,
    ".file": _file,
    ".loc": _location,
    ".uleb128": _leb128,
    ".sleb128": _leb128,
}
DIRECTIVES |= {name: _select(name) for name in (".text", ".data", ".bss", ".rodata")}
DIRECTIVES |= {
    name: _integers(size)
    for size, names in {
        1: ".byte",
        2: ".half .short .hword .2byte",
        4: ".word .long .int .4byte",
        8: ".dword .quad .8byte",
    }.items()
    for name in names.split()
}
DIRECTIVES |= dict.fromkeys(".ident .attribute .local .weak".split(), _ignore)

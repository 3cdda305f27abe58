"""Disassembler: instruction words as text that assembles to the same words."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from isa.assembler.syntax import Operand, syntax_of
from isa.declare import Decoded, Isa
from isa.program import Program


def disassemble(
    word: int,
    isa: Isa,
    pc: int | None = None,
    symbols: Callable[[int], str] | None = None,
    aliases: bool = True,
) -> str:
    """Return an instruction as GNU as writes it, with ABI names; `c.` is kept.

    word       32 bits; of a 16-bit instruction the low 16 bits count
    pc         its address, to show targets as addresses rather than distances from `.`
    symbols    names an address, as Program.place does; the name follows as a comment
    aliases    print pseudo-instructions where they fit

    What is illegal, or has bits set that the syntax cannot say, comes as `.word` or `.short`.
    """
    is_short = word & 3 != 3
    word &= 0xFFFF if is_short else 0xFFFFFFFF
    raw = f".short 0x{word:04x}" if is_short else f".word 0x{word:08x}"
    decoded = isa.decode(word)
    if decoded is None:
        return raw
    insn = decoded.alias or decoded.insn
    operands = insn.encoding.operands(word)
    syntax = syntax_of(isa)
    forms = [form for form in syntax.by_key[insn.key] if aliases or not form.is_alias]
    form = next((form for form in forms if form.fits(operands)), None)
    if form is None or insn.encoding.encode(**operands) != word:
        return f"{raw}  # {syntax.show(forms[-1], operands, pc)}"
    text = syntax.show(form, operands, pc)
    if symbols is not None and pc is not None:
        for part in form.parts:
            if isinstance(part, Operand) and part.kind == "target":
                target = pc + part.distance(operands[part.field.name]) & 0xFFFFFFFF
                name = symbols(target)
                return text if name == f"0x{target:08x}" else f"{text}  # {name}"
    return text


class _Word(NamedTuple):
    """An instruction in memory."""

    address: int
    word: int
    size: int


def listing(program: Program, isa: Isa) -> str:
    """Return a program's code as text: address, word, instruction.

    Symbols head their instructions, source lines are shown where they change, and a bar stands at
    the bodies of hardware loops: left for loop 1, right for loop 0.
    """
    lines = [f"{program.name}: entry {program.place(program.entry)}"]
    for section in program.code:
        lines += ["", f"section {section.name}"]
        code = list(_words(program.bytes_at(section.address, section.size), section.address))
        bars = _loop_bars(code, isa)
        source = None
        for address, word, size in code:
            symbol = program.symbol_at(address)
            if symbol is not None and symbol.address == address:
                lines += ["", f"{address:08x} <{symbol.name}>:"]
            here = program.lines.at(address)
            if here is not None and here != source:
                lines.append(f"# {here[0]}:{here[1]}")
            source = here
            digits = f"{word:0{2 * size}x}"
            text = disassemble(word, isa, address, program.place)
            lines.append(f"{address:08x}: {digits:8} {bars.get(address, '  ')} {text}".rstrip())
    return "\n".join(lines) + "\n"


def _words(data: bytes, address: int) -> Iterator[_Word]:
    position = 0
    while position + 2 <= len(data):
        size = 4 if data[position] & 3 == 3 and position + 4 <= len(data) else 2
        word = int.from_bytes(data[position : position + size], "little")
        yield _Word(address + position, word, size)
        position += size


def _loop_bars(code: list[_Word], isa: Isa) -> dict[int, str]:
    """Return, by address in the body of a hardware loop, the two characters that mark it."""
    addresses = [word.address for word in code]
    bars: dict[int, str] = {}
    for loop, start, end in _loops(code, isa):
        after = bisect_right if isa.loop_end == "last" else bisect_left
        body = addresses[bisect_left(addresses, start) : after(addresses, end)]
        for address in body:
            bar = "└" if address == body[-1] else "│"
            other = bars.get(address, "  ")
            bars[address] = bar + other[1] if loop else other[0] + bar
    return bars


def _loops(code: list[_Word], isa: Isa) -> Iterator[tuple[int, int, int]]:
    """Return number, start and end of each hardware loop that gives its addresses as constants."""
    known: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for address, word, _ in code:
        decoded = isa.decode(word)
        if decoded is None or decoded.insn.timing != "hwloop":
            continue
        loop = decoded.operands["L"]
        known[loop].update(_loop_addresses(decoded, address))
        if len(known[loop]) == 2:
            yield loop, known[loop].pop("lp_start"), known[loop].pop("lp_end")


def _loop_addresses(decoded: Decoded, pc: int) -> dict[str, int]:
    """Return the constants that an instruction writes to lp_start and lp_end."""
    insn, operands = decoded.insn, decoded.operands
    if "rs1" in insn.reads and "lp_count" not in insn.writes:
        return {}
    assert insn.function is not None
    known = operands | {"pc": pc, "size": decoded.size, "rs1": 0}
    results = insn.function(*(known[name] for name in insn.reads))
    values = results if isinstance(results, tuple) else (results,)
    return {
        name: value
        for name, value in zip(insn.writes, values, strict=True)
        if name in ("lp_start", "lp_end")
    }

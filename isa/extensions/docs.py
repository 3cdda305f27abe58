"""Reference pages of instructions, from their declarations."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from itertools import product
from textwrap import wrap

from isa.declare import Insn
from isa.encoding import Field
from isa.extensions.profiles import CORES, profile

COLUMNS = 100
FIELD_KINDS = {"x": "x register", "f": "float register", "csr": "CSR", "rm": "rounding mode"}
TIMING = {
    "alu": "one operation of the ALU",
    "mul": "one operation of the multiplier",
    "mulh": "high word of a product, several passes of the multiplier",
    "div": "serial division, signed",
    "divu": "serial division, unsigned",
    "load": "memory access with a result",
    "store": "memory access",
    "elw": "load that sleeps until the event unit answers",
    "branch": "conditional branch",
    "jump": "jump to a known target",
    "jalr": "jump to a register's address",
    "hwloop": "write of hardware-loop registers",
    "csr": "access to a control and status register",
    "fence": "memory ordering",
    "fencei": "instruction-memory ordering",
    "system": "trap, return from a trap, or sleep",
    "fpu": "pipelined floating-point operation",
    "fdiv": "floating-point division",
    "fsqrt": "floating-point square root",
}


def page(insn: Insn) -> str:
    """Return the reference page of an instruction: plain text of at most 100 columns."""
    parts = [
        f"{insn.syntax}\n{'=' * len(insn.syntax)}",
        "\n".join(wrap(" ".join(insn.doc.split()), COLUMNS)),
        f"Encoding, {insn.encoding.size} bytes\n\n{_drawing(insn)}",
    ]
    if insn.encoding.fields:
        parts.append("\n".join(["Fields\n", *_fields(insn)]))
    parts.append("\n".join(_facts(insn)))
    return "\n\n".join(parts) + "\n"


def find(name: str) -> tuple[Insn, ...]:
    """Return the instructions of all profiles with this mnemonic or key, case ignored."""
    wanted = name.lower()
    return tuple(insn for insn in _everything() if wanted in (insn.name.lower(), insn.key.lower()))


def search(name: str) -> list[str]:
    """Return mnemonics like name: that one, else those that contain it, else close ones; sorted."""
    wanted = name.lower()
    mnemonics = {insn.name.lower(): insn.name for insn in _everything()}
    if wanted in mnemonics:
        return [mnemonics[wanted]]
    found = [key for key in mnemonics if wanted in key]
    return sorted(mnemonics[key] for key in found or get_close_matches(wanted, mnemonics))


def _drawing(insn: Insn) -> str:
    """Return the bit fields as a table: bit numbers above the tokens of the encoding."""
    bits, line, tokens = " ", "+", "|"
    for token, high, low in insn.encoding.columns:
        width = max(len(token), len(f"{high} {low}")) + 2
        numbers = f"{high}".ljust(width - len(f"{low}")) + f"{low}" if high > low else f"{high}"
        bits += numbers.ljust(width) + " "
        line += "-" * width + "+"
        tokens += token.center(width) + "|"
    return "\n".join([bits.rstrip(), line, tokens, line])


def _fields(insn: Insn) -> Iterator[str]:
    fields = insn.encoding.fields
    width = max(map(len, fields))
    for name, field in fields.items():
        yield f"    {name.ljust(width)}    {_describe(field)}"


def _describe(field: Field) -> str:
    low, high = field.range
    if field.kind == "x" and field.base:
        return f"x register, x{low}..x{high}"
    if field.kind == "f" and field.base:
        return f"float register, f{low}..f{high}"
    text = FIELD_KINDS.get(field.kind, f"{'signed' if field.signed else 'unsigned'}, {low}..{high}")
    if field.step > 1:
        text += f", multiple of {field.step}"
    if field.excluded:
        text += f", not {' or '.join(map(str, sorted(field.excluded)))}"
    return text


def _facts(insn: Insn) -> Iterator[str]:
    if insn.expands is None:
        yield f"Timing       {insn.timing}: {TIMING[insn.timing]}"
        if insn.access is not None:
            yield f"Access       {insn.access} {_data(insn)}"
        if insn.reads:
            yield f"Reads        {' '.join(insn.reads)}"
        if insn.writes:
            yield f"Writes       {' '.join(insn.writes)}"
    yield f"Extension    {insn.extension}"
    profiles = ", ".join(_profiles_with(insn))
    yield "\n".join(wrap(f"Profiles     {profiles}", COLUMNS, subsequent_indent=" " * 13))


def _data(insn: Insn) -> str:
    """Name the register that a load writes or a store reads."""
    if insn.timing == "store":
        return "from fs2" if "fs2" in insn.encoding.fields else "from rs2"
    return "to fd" if "fd" in insn.encoding.fields else "to rd"


def _profiles_with(insn: Insn) -> Iterator[str]:
    for isa in _profiles():
        if insn.key in isa and isa[insn.key] is insn:
            yield isa.name


def _profiles() -> Iterator:
    for core, registers, small in product(CORES, ("f", "x"), (False, True)):
        yield profile(core, registers, small, dot_products=small)


@cache
def _everything() -> tuple[Insn, ...]:
    """Return the instructions of all profiles, each once, in order of declaration."""
    insns = (insn for isa in _profiles() for insn in (*isa.insns, *isa.compressed))
    return tuple(dict.fromkeys(insns))

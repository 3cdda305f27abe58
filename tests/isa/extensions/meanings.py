"""Operands to try meanings on."""

import random
from collections.abc import Iterator

from isa.declare import Insn
from isa.encoding import Field

EDGES = (
    *(0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, -1, -2, -3, -31, -32),
    *(0x7FFFFFFF, -0x80000000, -0x7FFFFFFF, 0x7FFFFFFE, 0x40000000, -0x40000000),
    *(0x7FFF, 0x8000, -0x8000, -0x8001, 0xFFFF, 0x10000, -0x10000, 0x7FFF8000, -0x7FFF8000),
    *(0x80, 0x7F, -0x80, 0xFF, -0x7F7F7F80, 0x7F807F80, 0x01010101, 0x55555555, -0x55555556),
)
"""Values of x registers: signed 32-bit integers."""

HART_VALUES = {
    "pc": (0, 0x1C000080, 0xFFFFFFFC),
    "size": (2, 4),
    "csr_value": EDGES,
    "frm": (0, 1, 2, 3, 4),
    "rm": (0, 1, 2, 3, 4),
    "boxed": (0, 1),
}


def operands(insn: Insn, count: int) -> Iterator[tuple[int, ...]]:
    """Yield arguments of the meaning: edge values, then random ones; the same in every run."""
    generator = random.Random(insn.key)
    for index in range(count):
        yield tuple(_value(insn, name, index, count, generator) for name in insn.reads)


def _value(insn: Insn, name: str, index: int, count: int, generator: random.Random) -> int:
    if name in HART_VALUES and name not in ("rm",):
        return generator.choice(HART_VALUES[name])
    field = insn.encoding.fields[name]
    if name == "rm":
        return generator.choice(HART_VALUES["rm"])
    if field.kind not in ("x", "f"):
        return field_value(field, generator)
    if index < count // 2:
        return generator.choice(EDGES)
    return generator.getrandbits(32) - (1 << 31)


def field_value(field: Field, generator: random.Random) -> int:
    """Return a value of an immediate, its extremes more often than others."""
    low, high = field.range
    chosen = generator.choice((low, high, generator.randrange(low, high + 1, field.step)))
    return chosen if chosen not in field.excluded else high

"""The instruction tables that declarations are held against.

Rows were extracted from public specifications, assemblers and RTL decoders and checked against GNU
as and LLVM. Columns: mnemonic, ext, bits, mask, match, operands, syntax, semantics, constraints,
sources. An operand is `name:type@piece[,piece]` with piece = `bit+width[<<shift]`; types are x f
(register; xc fc: three bits, 8 added; xio fio xcio: read and written), sN uN (immediate), csr, rm.
"""

import csv
import gzip
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parents[1] / "data"

FLOAT_NAMES = {"rd": "fd", "rs1": "fs1", "rs2": "fs2", "rs3": "fs3"}


class Operand(NamedTuple):
    """One operand of a row, by the name that a declaration gives it."""

    name: str
    kind: str  # "x", "f", "csr", "rm", "s12", "u5" ...
    base: int
    pieces: frozenset[tuple[int, int, int]]


class Row(NamedTuple):
    """One row of a table."""

    mnemonic: str
    mask: int
    match: int
    operands: tuple[Operand, ...]
    names: tuple[str, ...]  # of the operands, as the table's syntax has them
    syntax: str


def rows(table: str) -> list[Row]:
    """Return the rows of "base_rv32imfc", "xpulpv2" or "xcv"."""
    with gzip.open(DATA / f"{table}.csv.gz", "rt") as lines:
        return [_row(line) for line in csv.DictReader(lines)]


def _row(line: dict[str, str]) -> Row:
    mask = int(line["mask"], 16)
    if "inst[12]==0" in line["constraints"]:
        mask |= 1 << 12  # a declaration says it in the encoding
    is_nonzero = "imm!=0" in line["constraints"]
    operands = tuple(_operand(text, is_nonzero) for text in line["operands"].split())
    names = tuple(text.partition(":")[0] for text in line["operands"].split())
    match = int(line["match"], 16)
    return Row(line["mnemonic"], mask, match, operands, names, line["syntax"])


def _operand(text: str, is_nonzero: bool) -> Operand:
    name, _, rest = text.partition(":")
    kind, _, places = rest.partition("@")
    kind = kind.removesuffix("io") if kind.endswith("io") else kind
    is_short = kind in ("xc", "fc")
    kind = kind[0] if is_short else kind
    if kind == "f":
        name = FLOAT_NAMES[name]
    if name == "imm":
        name = ("nz" if is_nonzero else "") + ("uimm" if kind.startswith("u") else "imm")
    return Operand(name, kind, 8 if is_short else 0, frozenset(map(_piece, places.split(","))))


def _piece(text: str) -> tuple[int, int, int]:
    place, _, shift = text.partition("<<")
    bit, _, width = place.partition("+")
    return int(bit), int(width), int(shift or 0)

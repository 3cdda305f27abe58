"""Declarations: what an instruction is, extensions that group them, the set that a hart executes.

An extension's file declares each instruction once:

    XPULP = Extension("xpulpmac")

    @XPULP.insn("0100001 rs2 rs1 000 rd 0110011", "p.mac rd, rs1, rs2", "mul")
    def p_mac(rd, rs1, rs2):
        \"\"\"Multiply-accumulate: rd += rs1 * rs2, modulo 2^32.\"\"\"
        return rd + rs1 * rs2

Syntax: mnemonic, then operands in the assembler's order. An operand is the name of a field.
`pc+imm` is written as the target's address or label, `imm>>12` and `uimmL<<2` as the field's value
shifted, hardware loop `xL` as x0 or x1; `zero`, `ra` and `sp` stand for themselves.

Parameters of the function: what the instruction reads, by name.

    rs1 rs2 rs3 rd      x register in that field (rd: its old value), signed 32 bits
    fs1 fs2 fs3 fd      float register in that field, its bit pattern as signed 32 bits
    pc size             address of this instruction, its bytes (2 when it was compressed)
    csr_value           old value of the CSR in field csr
    rm                  rounding mode 0..4 (dynamic already replaced), in encodings without field rm
                        frm;  frm: that of the CSR
    boxed               1 if narrow floats are NaN-boxed (float registers of their own), else 0
    any other name      the value of that field

`writes`: where the returned values go, in order. One token, one value; several, a tuple; none: the
hart itself acts, the body is empty. Who stores a result wraps it to 32 bits.

    rd fd               the register in that field;  rs1: the advanced pointer of a memory access
    pc                  the next instruction (branches: in both cases)
    addr                byte address of the memory access; loads then write their rd or fd
    csr flags           new value of the CSR; exception flags to set in fflags
    -                   nowhere: flags, on a core that loses them
    lp_start lp_end lp_count    of hardware loop L
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from keyword import iskeyword
from typing import NamedTuple

from isa.encoding import Encoding, Field

TIMINGS = (
    *("alu", "mul", "mulh", "div", "divu", "fpu", "fdiv", "fsqrt"),
    *("load", "store", "elw", "branch", "jump", "jalr", "hwloop"),
    *("csr", "fence", "fencei", "system"),
)
ACCESSES: dict[str, tuple[str | None, ...]] = {
    "load": ("i8", "u8", "i16", "u16", "i32", "f8", "f16"),
    "store": ("i8", "i16", "i32"),
    "elw": ("i32",),
}
HART_READS = ("pc", "size", "csr_value", "frm", "boxed")
LOST = "-"
WRITES = ("rd", "fd", "rs1", "pc", "addr", "csr", "flags", "lp_start", "lp_end", "lp_count", LOST)
FIXED_REGISTERS = {"zero": 0, "ra": 1, "sp": 2}

OPERAND = re.compile(r"(?:pc\+|x(?=L\b))?(?P<name>\w+)(?:(?:<<|>>)\d+)?")


@dataclass(frozen=True, eq=False, slots=True)
class Insn:
    """One instruction, as declared."""

    name: str  # mnemonic, "p.lw"
    key: str  # Python name, unique in a profile: "p_lw", "p_lw_rr"
    extension: str
    encoding: Encoding
    syntax: str  # "p.lw rd, imm(rs1!)"
    timing: str  # one of TIMINGS; "" for a compressed instruction, which has that of its expansion
    access: str | None  # width and extension of the memory access, one of ACCESSES
    reads: tuple[str, ...]  # what the function is called with, in order
    writes: tuple[str, ...]  # where its results go
    function: Callable | None  # the meaning; None for a compressed instruction
    doc: str
    constraint: Callable[[dict[str, int]], bool] | None = None  # fields -> are they not reserved?
    expands: str | None = None  # compressed instructions only: "addi rd, rd, imm"

    @property
    def operand_names(self) -> tuple[str, ...]:
        """Fields in the order of the syntax: the arguments of the assembler."""
        return tuple(name for name in _operands(self.syntax) if name not in FIXED_REGISTERS)

    def accepts(self, word: int) -> bool:
        """Is word this instruction, and not a reserved encoding?"""
        if not self.encoding.matches(word):
            return False
        return self.constraint is None or self.constraint(self.encoding.operands(word))

    def __repr__(self) -> str:
        return f"<Insn {self.syntax}>"


class Decoded(NamedTuple):
    """One decoded word. Operands are register numbers and values of immediates."""

    insn: Insn  # of a compressed word: the instruction that it expands to
    operands: dict[str, int]
    size: int  # bytes, 2 or 4
    alias: Insn | None  # the compressed instruction, or None


class Extension:
    """A named list of declarations."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._by_key: dict[str, Insn] = {}

    @property
    def insns(self) -> tuple[Insn, ...]:
        """All declarations, in order."""
        return tuple(self._by_key.values())

    def __getitem__(self, key: str) -> Insn:
        return self._by_key[key]

    def add(self, insn: Insn) -> None:
        """Take in an instruction that is declared already.

        raises    ValueError if its parts contradict each other, or its key is taken
        """
        _check(insn)
        if insn.key in self._by_key:
            raise ValueError(f"{self.name}: two instructions have the key {insn.key}")
        self._by_key[insn.key] = insn

    def insn(
        self,
        encoding: str,
        syntax: str,
        timing: str,
        *,
        access: str | None = None,
        reads: str | None = None,
        writes: str = "rd",
        key: str | None = None,
        doc: str | None = None,
        constraint: Callable[[dict[str, int]], bool] | None = None,
    ) -> Callable[[Callable], Callable]:
        """Declare an instruction by decorating its meaning, which is returned unchanged.

        reads, key and doc default to the function's parameters, to the mnemonic with `_` for `.`
        and to the function's docstring: members of a family that share one function give their own.

        raises    ValueError if the parts of the declaration contradict each other
        """

        def declare(function: Callable) -> Callable:
            name = syntax.split()[0]
            row = Encoding(encoding)
            insn = Insn(
                name=name,
                key=key or _key(name),
                extension=self.name,
                encoding=row,
                syntax=syntax,
                timing=timing,
                access=access,
                reads=tuple(reads.split()) if reads else _reads(function, row),
                writes=tuple(writes.split()),
                function=function,
                doc=doc or function.__doc__ or "",
                constraint=constraint,
            )
            self.add(insn)
            return function

        return declare

    def like(self, encoding: str, syntax: str, other: Insn, *, key: str | None = None) -> None:
        """Declare an instruction that means the same as another one under its own encoding."""
        name = syntax.split()[0]
        insn = replace(
            other,
            name=name,
            key=key or _key(name),
            extension=self.name,
            encoding=Encoding(encoding),
            syntax=syntax,
        )
        self.add(insn)

    def compressed(self, encoding: str, syntax: str, *, expands: str) -> None:
        """Declare a 16-bit instruction by the 32-bit one that it stands for."""
        name = syntax.split()[0]
        insn = Insn(
            name=name,
            key=_key(name),
            extension=self.name,
            encoding=Encoding(encoding),
            syntax=syntax,
            timing="",
            access=None,
            reads=(),
            writes=(),
            function=None,
            doc=f"Expands to {expands}.",
            expands=expands,
        )
        self.add(insn)


class _Expansion(NamedTuple):
    """The 32-bit instruction that a compressed one stands for, and the sources of its operands."""

    base: Insn
    operands: tuple[tuple[str, Field | int], ...]


class Isa:
    """The instructions that one kind of hart executes.

    insns         executable instructions; an instruction's op number is its index
    compressed    16-bit instructions, each an abbreviation of an executable one
    loop_end      what a hardware loop's end register holds: the address of the "last" instruction
                  of the body, or of the first one "after" it

    raises    ValueError if two declarations have the same key, or overlap and neither is a special
              case of the other
    """

    def __init__(self, *extensions: Extension, name: str, loop_end: str) -> None:
        if loop_end not in ("last", "after"):
            raise ValueError(f"isa {name}: loop_end is {loop_end!r}; it is 'last' or 'after'")
        self.name = name
        self.loop_end = loop_end
        self.extensions = extensions
        declared = [insn for extension in extensions for insn in extension.insns]
        self.insns = tuple(insn for insn in declared if insn.expands is None)
        self.compressed = tuple(insn for insn in declared if insn.expands is not None)
        self._by_key: dict[str, Insn] = {}
        self._by_name: dict[str, tuple[Insn, ...]] = {}
        for insn in declared:
            if insn.key in self._by_key:
                raise ValueError(f"isa {name}: two instructions have the key {insn.key}")
            self._by_key[insn.key] = insn
            self._by_name[insn.name] = (*self._by_name.get(insn.name, ()), insn)
        self._expansions = {insn.key: self._expand(insn) for insn in self.compressed}
        self._buckets = _buckets(declared)
        for bucket in self._buckets.values():
            _check_overlaps(name, bucket)
        self.decode = lru_cache(maxsize=1 << 16)(self._decode)

    def __repr__(self) -> str:
        return f"<Isa {self.name}, {len(self.insns)} instructions>"

    def __getitem__(self, key: str) -> Insn:
        return self._by_key[key]

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def by_name(self, mnemonic: str) -> tuple[Insn, ...]:
        """All forms of a mnemonic, in the order of declaration; () if there is none."""
        return self._by_name.get(mnemonic, ())

    def encode(self, insn: Insn, **operands: int) -> int:
        """Return the instruction word.

        raises    ValueError that names the instruction, the operand, its value and its range
        """
        try:
            word = insn.encoding.encode(**operands)
        except ValueError as error:
            raise ValueError(f"{insn.name}: {error}") from None
        if insn.constraint is not None and not insn.constraint(operands):
            raise ValueError(f"{insn.name}: {operands} is a reserved encoding")
        return word

    def _decode(self, word: int) -> Decoded | None:
        """Decode a word (of a 16-bit instruction: its 16 bits); None if it is illegal."""
        insn = self._lookup(word)
        if insn is None:
            return None
        if insn.expands is None:
            return Decoded(insn, insn.encoding.operands(word), 4, None)
        base, operands = self._expansions[insn.key]
        values = {
            name: source if isinstance(source, int) else source.extract(word)
            for name, source in operands
        }
        return Decoded(base, values, 2, insn)

    def _lookup(self, word: int) -> Insn | None:
        for mask, by_match in self._buckets.get(_bucket(word), ()):
            insn = by_match.get(word & mask)
            if insn is not None and insn.accepts(word):
                return insn
        return None

    def _expand(self, insn: Insn) -> _Expansion:
        assert insn.expands is not None
        written = tuple(_operands(insn.expands))
        bases = self.by_name(insn.expands.split()[0])
        targets = tuple(_operands(bases[0].syntax)) if len(bases) == 1 else ()
        if len(bases) != 1 or len(targets) != len(written):
            rule = "must name one instruction, with its operands"
            raise ValueError(f"isa {self.name}: expansion {insn.expands!r} of {insn.name} {rule}")
        sources = (_source(insn, text) for text in written)
        return _Expansion(bases[0], tuple(zip(targets, sources, strict=True)))


def _source(insn: Insn, text: str) -> Field | int:
    """Return the source of an expansion's operand: a field, or a number or fixed register."""
    if text in FIXED_REGISTERS:
        return FIXED_REGISTERS[text]
    return int(text) if text.isdigit() else insn.encoding.fields[text]


Bucket = list[tuple[int, dict[int, Insn]]]  # (mask, match -> instruction), most specific mask first


def _bucket(word: int) -> int:
    """Return what all encodings fix: the major opcode, or the quadrant of 16-bit instructions."""
    return word & 0x7F if word & 3 == 3 else word & 3


def _buckets(insns: list[Insn]) -> dict[int, Bucket]:
    tables: dict[int, dict[int, dict[int, Insn]]] = {}
    for insn in insns:
        encoding = insn.encoding
        by_match = tables.setdefault(_bucket(encoding.match), {}).setdefault(encoding.mask, {})
        other = by_match.setdefault(encoding.match, insn)
        if other is not insn:
            raise ValueError(f"{insn.syntax!r} and {other.syntax!r} have the same encoding")
    return {
        opcode: sorted(by_mask.items(), key=lambda item: -item[0].bit_count())
        for opcode, by_mask in tables.items()
    }


def _check_overlaps(name: str, bucket: Bucket) -> None:
    """Check that of two encodings with common words, one is a special case of the other."""
    for index, (mask, specific) in enumerate(bucket):
        for wider_mask, general in bucket[index + 1 :]:
            if mask & wider_mask == wider_mask:
                continue
            common = mask & wider_mask
            seen = {match & common: insn for match, insn in general.items()}
            for match, insn in specific.items():
                if match & common in seen:
                    both = f"{insn.syntax!r} and {seen[match & common].syntax!r}"
                    raise ValueError(f"isa {name}: encodings of {both} overlap")


def _parameters(function: Callable) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


def _reads(function: Callable, encoding: Encoding) -> tuple[str, ...]:
    names = _parameters(function)
    if "rm" in encoding.fields:
        return names
    return tuple("frm" if name == "rm" else name for name in names)


def _key(mnemonic: str) -> str:
    key = mnemonic.replace(".", "_")
    return f"{key}_" if iskeyword(key) else key


def _operands(syntax: str) -> Iterator[str]:
    """Return the operand names of a syntax line, in order."""
    _, _, operands = syntax.partition(" ")
    return (operand["name"] for operand in OPERAND.finditer(operands))


def _check(insn: Insn) -> None:
    """Raise ValueError if the parts of a declaration contradict each other."""
    fields = insn.encoding.fields
    if insn.expands is None:
        _check_meaning(insn, fields)
    for name in (*_operands(insn.syntax), *_operands(insn.expands or "")):
        if name not in fields and name not in FIXED_REGISTERS and not name.isdigit():
            raise ValueError(f"{insn.name}: operand {name!r} is not in {insn.encoding.text!r}")


def _check_meaning(insn: Insn, fields: dict[str, Field]) -> None:
    accesses = ACCESSES.get(insn.timing, (None,))
    if insn.timing not in TIMINGS:
        raise ValueError(f"{insn.name}: timing {insn.timing!r} is not one of {_listed(TIMINGS)}")
    if insn.function is not None and len(insn.reads) != len(_parameters(insn.function)):
        parameters = ", ".join(_parameters(insn.function))
        raise ValueError(f"{insn.name}: reads {_listed(insn.reads)} for parameters {parameters}")
    if insn.access not in accesses:
        rule = f"with timing {insn.timing} it is one of {_listed(accesses)}"
        raise ValueError(f"{insn.name}: access is {insn.access!r}; {rule}")
    for name in insn.reads:
        if name not in fields and name not in HART_READS:
            rule = f"a field or one of {_listed(HART_READS)}"
            raise ValueError(f"{insn.name}: reads {name!r}, which is not {rule}")
    for name in insn.writes:
        if name not in WRITES:
            raise ValueError(f"{insn.name}: writes {name!r}, which is not one of {_listed(WRITES)}")
        if name in ("rd", "fd", "rs1") and name not in fields:
            raise ValueError(f"{insn.name}: writes {name}, which is not in {insn.encoding.text!r}")


def _listed(names: tuple) -> str:
    return ", ".join(map(str, names))

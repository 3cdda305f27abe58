"""Primitives in L2 as functions: one for each primitive and its arguments, called with a record.

    functions = Functions(k, team)
    sgd = functions.of(family, point)               # emitted once
    sgd.workspaces                                  # bytes of L2 that a call needs besides
    sgd.call({"w": 0x1C040000, "g": 0x1C050000})    # as often as there are weights of this size

A record is a word in L2 for each operand and workspace: where it starts. Cores load a word each and
leave it in L1 for all, see trainlib.tiling.records; code and tables of a function know nothing else
of where its operands are. So addresses may be chosen when all functions are there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from firmware.builder import Kernel, KernelError, Label
from firmware.code import Code
from firmware.fetch_ahead import emit_fetcher
from firmware.registers import RA, SP, A
from firmware.runtime import Team
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.operator import Family
from trainlib.primitive.tensor import WORD
from trainlib.tiling.dispatch import emit_from_l2
from trainlib.tiling.records import BASES, Operand

FRAME = 16  # bytes of each core's stack: where the function returns to
MOST = BASES // WORD - 1  # operands and workspaces of a function; the first base is L2's


class Record(NamedTuple):
    """What a call tells its function.

    address     in L2
    operands    names of what its words are for
    """

    address: int
    operands: tuple[str, ...]


def encoded(addresses: Sequence[int]) -> list[int]:
    """The words of a record: the bases of its operands."""
    marks = (Operand(WORD * number).mark for number in range(1, len(addresses) + 1))
    return [(at - mark) & 0xFFFFFFFF for at, mark in zip(addresses, marks, strict=True)]


def decoded(words: Sequence[int]) -> list[int]:
    """The L2 addresses that the words of a record stand for."""
    marks = (Operand(WORD * number).mark for number in range(1, len(words) + 1))
    return [(word + mark) & 0xFFFFFFFF for word, mark in zip(words, marks, strict=True)]


@dataclass
class Function:
    """A primitive as a function.

    operands      names of what its record tells, in that order
    workspaces    those of them that are no tensors: bytes of L2 that are its own while it runs
    code          bytes
    tables        bytes of L2 that it reads
    records       of its program's calls, in the order in which they are emitted
    """

    k: Kernel
    label: Label
    operands: list[str]
    workspaces: dict[str, int] = field(default_factory=dict)
    code: int = 0
    tables: int = 0
    records: list[Record] = field(default_factory=list)

    def call(self, at: Mapping[str, int]) -> None:
        """Emit a call by all cores, which have nothing in registers.

        at     L2 addresses of operands and workspaces by name

        raises    KernelError if one is missing, or is no multiple of 4
        """
        k = self.k
        for name in self.operands:
            if at.get(name, 1) % WORD:
                what = f"at {at[name]:#x}, no multiple of {WORD}" if name in at else "nowhere"
                raise KernelError(f"call of {self.label.name}: its {name} is {what}")
        words = encoded([at[name] for name in self.operands])
        record = k.words(f"{self.label.name}_record", words, WORD)
        self.records.append(Record(record, tuple(self.operands)))
        with k.scope():
            k.registers.hold(A[0])
            k.li(A[0], record)
            k.jal(RA, self.label)


class Functions:
    """The functions of a program, and in L1 the bases that they share.

    It is made where the body of the program begins: all cores execute what it emits.

    each       by their primitives' names and arguments
    records    of all calls so far
    """

    def __init__(self, k: Kernel, team: Team) -> None:
        self.k, self.team = k, team
        self.bases = k.buffer(k.l1, "bases", BASES, BASES)
        self.each: dict[tuple[str, str], Function] = {}
        self.records: list[Record] = []
        self._load_bases = self._emit_load_bases()
        if k.isa.loop_end == "last":
            emit_fetcher(k, team)
        with team.only(0), k.scope():
            at, value = k.x(2)
            k.li(at, self.bases)
            k.li(value, k.l2.base)
            k.sw(value, 0, at)

    def of(self, family: Family, point: TiledArguments) -> Function:
        """The function of a primitive, emitted when it is asked for the first time.

        raises    KernelError as emit_from_l2 does, or if there are too many operands
        """
        key = family.name, point.model_dump_json()
        if key not in self.each:
            self.each[key] = self._emit(family, point)
        return self.each[key]

    @property
    def code(self) -> int:
        """Bytes of all functions."""
        return sum(function.code for function in self.each.values())

    @property
    def tables(self) -> int:
        """Bytes of L2 that they read."""
        return sum(function.tables for function in self.each.values())

    def _emit(self, family: Family, point: TiledArguments) -> Function:
        k = self.k
        tensors = family.tensors(point)
        names = [name for name, tensor in tensors.items() if tensor.role != "scratch"]
        l1, l2 = k.l1.next, k.l2.next
        with k.aside(f"{family.name}_{len(self.each)}") as label:
            function = Function(k, label, names, records=self.records)

            def workspace(name: str, size: int) -> Operand:
                function.workspaces[name] = size
                names.append(name)
                return self._base(len(names))

            at = {name: self._base(number) for number, name in enumerate(names, 1)}
            emit_from_l2(k, self.team, family, point, at, workspace)
            self._around(label, len(names))
            if len(names) > MOST:
                raise KernelError(f"{label.name}: {len(names)} operands; it may have {MOST}")
            function.code = k.code.size
        k.l1.next = l1
        function.tables = k.l2.next - l2
        return function

    def _base(self, number: int) -> Operand:
        return Operand(self.bases + WORD * number)

    def _around(self, label: Label, count: int) -> None:
        """Let the code so far be a function with so many operands."""
        k, body = self.k, self.k.code
        k.code = Code()
        k.place(label)
        with k.compact():
            k.addi(SP, SP, -FRAME)
            k.sw(RA, 0, SP)
            k.li(A[1], count)
            k.jal(RA, self._load_bases)
        k.code.items += body.items
        with k.compact():
            k.lw(RA, 0, SP)
            k.addi(SP, SP, FRAME)
            k.ret()

    def _emit_load_bases(self) -> Label:
        """Emit what loads as many bases as a1 says from the record at a0; return its label."""
        k, team = self.k, self.team
        with k.aside("load_bases") as label:
            k.place(label)
            record, count = A[:2]
            k.registers.hold(RA, record, count)
            number, base, value = k.x(3)
            team.core(number)
            k.slli(value, number, WORD.bit_length() - 1)
            k.add(record, record, value)
            k.li(base, self.bases + WORD)
            k.add(base, base, value)
            again, done = k.here(), k.label()
            k.bge(number, count, done)
            k.lw(value, 0, record)
            k.addi(number, number, team.cores)
            k.addi(record, record, WORD * team.cores)
            k.sw(value, 0, base)
            k.addi(base, base, WORD * team.cores)
            k.j(again)
            k.place(done)
            team.barrier()
            k.ret()
        return label

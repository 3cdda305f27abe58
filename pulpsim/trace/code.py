"""Code at the addresses of a recording: function, text, calls and returns."""

import re
from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

import numpy as np

from isa.assembler.disasm import disassemble
from isa.declare import Isa
from isa.extensions.profiles import profile_named
from pulpsim.trace.dense_address_index import Places
from soc.trace.reader import Trace

LINKS = (1, 5)
"""Registers that hold return addresses: ra and t0, by the psABI."""

TARGET = re.compile(r"(?<= )0x[0-9a-f]{8}  # (\S+)$")
"""An operand that is an address, and its name after it."""

NO_FLOW, CALL, RETURN = 0, 1, 2


class _Told(NamedTuple):
    """An address in words."""

    place: str
    line: str


class Code:
    """Code at each address of a recording, looked up once.

    functions    names, by the numbers that `function` has; number 0 is code without a symbol
    lines        "file:line", by the numbers that `line` has; number 0 is code without
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.places = Places()
        names = dict.fromkeys(name for _, _, name in trace.symbols if name)
        self.functions, self.lines = ["", *names], [""]  # the same numbers in whatever parts
        self._known = np.zeros(0, bool)
        self._function, self._line = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self._flow, self._size = np.zeros(0, np.uint8), np.zeros(0, np.uint8)
        self._texts: dict[int, str] = {}
        self._tellings: dict[int, _Told] = {}

    @cached_property
    def isa(self) -> Isa:
        """The instructions of the chip."""
        return profile_named(self.trace.header["isa"])

    def function(self, pcs: np.ndarray) -> np.ndarray:
        """The number of each address's function, int32[n]."""
        places = self._learnt(pcs)
        return self._function[places]

    def line(self, pcs: np.ndarray) -> np.ndarray:
        """The number of each address's source line, int32[n]."""
        places = self._learnt(pcs)
        return self._line[places]

    def line_name(self, pc: int) -> str:
        """ "file:line" of one address, "" where that is not known."""
        return self._told(pc).line

    def flow(self, pcs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Flow of the instruction at each address, NO_FLOW, CALL or RETURN, and its bytes."""
        places = self._learnt(pcs)
        return self._flow[places], self._size[places]

    def size(self, pc: int) -> int:
        """The bytes of the instruction at one address; 0 outside of the program's code."""
        return int(self.flow(np.array([pc]))[1][0])

    def text(self, pc: int) -> str:
        """The instruction at an address in assembly, a jump's target by name: "j main+0x4"."""
        text = self._texts.get(pc)
        if text is None:
            word = self.trace.word_at(pc)
            text = "?" if word is None else disassemble(word, self.isa, pc, self.place)
            self._texts[pc] = text = TARGET.sub(r"\1", text)
        return text

    def place(self, pc: int) -> str:
        """An address in words: "matmul+0x1c"; "0x1c008000" where there is no symbol."""
        return self._told(pc).place

    def _told(self, pc: int) -> "_Told":
        told = self._tellings.get(pc)
        if told is None:
            pcs = np.array([pc])
            name, line = self.functions[self.function(pcs)[0]], self.lines[self.line(pcs)[0]]
            distance = pc - self._starts[bisect_right(self._starts, pc) - 1] if name else 0
            place = name + (f"+0x{distance:x}" if distance else "") or f"0x{pc:08x}"
            self._tellings[pc] = told = _Told(place, line)
        return told

    def _learnt(self, pcs: np.ndarray) -> np.ndarray:
        places = self.places.of(pcs)
        more = self.places.size - self._known.size
        if more:
            for name in ("_known", "_function", "_line", "_flow", "_size"):
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros(more, array.dtype)]))
        if not self._known[places].all():
            self._learn(np.unique(places[~self._known[places]]))
        return places

    def _learn(self, places: np.ndarray) -> None:
        pcs = self.places.pcs(places)
        self._function[places] = _numbered(self.trace.function_of(pcs), self.functions)
        self._line[places] = _numbered(self.trace.line_of(pcs), self.lines)
        for place, pc in zip(places, pcs.tolist(), strict=True):
            self._flow[place], self._size[place] = self._flow_at(pc)
        self._known[places] = True

    def _flow_at(self, pc: int) -> tuple[int, int]:
        word = self.trace.word_at(pc)
        if word is None:
            return NO_FLOW, 0
        size = 4 if word & 3 == 3 else 2
        decoded = self.isa.decode(word)
        if decoded is None or decoded.insn.name not in ("jal", "jalr"):
            return NO_FLOW, size
        operands = decoded.operands
        if operands["rd"] in LINKS:
            return CALL, size
        returns = operands["rd"] == 0 and operands.get("rs1") in LINKS
        return RETURN if returns else NO_FLOW, size

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _, _ in self.trace.symbols]


def _numbered(names: np.ndarray, known: list[str]) -> list[int]:
    """The place of each name in a list, to which it is added if it is new."""
    places = {name: number for number, name in enumerate(known)}
    numbers = [places.setdefault(name, len(places)) for name in names.tolist()]
    known += list(places)[len(known) :]
    return numbers

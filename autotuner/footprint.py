"""Bytes of a layer: every tensor in L2 and every buffer in L1, as the launcher lays them out."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from firmware.runtime import STACK
from isa.program import Program, Symbol
from soc.chip.spec import SocSpec
from trainlib.launch import KernelProgram
from trainlib.primitive.element import BF16, F16
from trainlib.primitive.tensor import FLOAT32, INT32

TYPES = {FLOAT32: "f32", INT32: "i32", F16.dtype: "f16", BF16.dtype: "bf16"}


def l1_bytes(program: Program, chip: SocSpec) -> int:
    """Bytes from L1's first one after the last buffer, gaps included."""
    return max((s.address + s.size - chip.l1.base for s in in_l1(program, chip)), default=0)


def in_l1(program: Program, chip: SocSpec) -> list[Symbol]:
    """The buffers in L1."""
    l1 = range(chip.l1.base, chip.l1.base + chip.l1.size)
    return [s for s in program.symbols if s.address in l1 and s.kind == "object"]


def _numbered(symbols: list[Symbol]) -> Iterator[tuple[str, int]]:
    """Yield name and size of symbols; a name that recurs has its number added."""
    seen: Counter[str] = Counter()
    for symbol in symbols:
        seen[symbol.name] += 1
        count = seen[symbol.name]
        yield symbol.name if count == 1 else f"{symbol.name} ({count})", symbol.size


@dataclass(frozen=True)
class Footprint:
    """Where the bytes are.

    tensors     in L2, by name: their type and their bytes
    buffers     in L1, by name
    l1_bytes    from L1's first byte after the last buffer, gaps included
    stacks      bytes of all cores' stacks, at the top of L1
    code        bytes of instructions
    tables      bytes in L2 of the DMA's commands, and of kernels' own tables
    """

    tensors: dict[str, tuple[str, int]]
    buffers: dict[str, int]
    l1_bytes: int
    stacks: int
    code: int
    tables: int

    @classmethod
    def of(cls, built: KernelProgram, chip: SocSpec) -> "Footprint":
        """Read it off a program that is built."""
        inside = in_l1(built.program, chip)
        outside = [s for s in built.program.symbols if s.kind == "object" and s not in inside]
        tensors = built.family.tensors(built.arguments)
        in_l2 = {s.name: s.size for s in outside if s.name in tensors}
        return cls(
            {name: (TYPES[tensors[name].dtype], size) for name, size in in_l2.items()},
            dict(_numbered(inside)),
            l1_bytes(built.program, chip),
            STACK * chip.cores,
            sum(len(s.data) for s in built.program.segments if s.address <= built.program.entry
                < s.address + len(s.data)),
            sum(s.size for s in outside if s.name not in tensors),
        )  # fmt: skip

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(size for _, size in self.tensors.values())

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "tensors": {n: {"dtype": d, "bytes": size} for n, (d, size) in self.tensors.items()},
            "tensor_bytes": self.tensor_bytes,
            "buffers": self.buffers,
            "l1_bytes": self.l1_bytes,
            "stacks": self.stacks,
            "code": self.code,
            "tables": self.tables,
        }

"""Bytes of a layer: every tensor in L2 and every buffer in L1, as the launcher lays them out."""

from dataclasses import dataclass

from firmware.runtime import STACK
from isa.program import Program, Symbol
from soc.spec import SocSpec
from trainlib.launch import KernelProgram


def l1_bytes(program: Program, chip: SocSpec) -> int:
    """Bytes from L1's first one behind the last buffer, gaps included."""
    return max((s.address + s.size - chip.l1.base for s in in_l1(program, chip)), default=0)


def in_l1(program: Program, chip: SocSpec) -> list[Symbol]:
    """The buffers in L1."""
    l1 = range(chip.l1.base, chip.l1.base + chip.l1.size)
    return [s for s in program.symbols if s.address in l1 and s.kind == "object"]


@dataclass(frozen=True)
class Footprint:
    """Where the bytes are.

    tensors     in L2, by name
    buffers     in L1, by name
    l1_bytes    from L1's first byte behind the last buffer, gaps included
    stacks      bytes of all cores' stacks, at the top of L1
    code        bytes of instructions
    schedule    bytes in L2 of what tells the DMA its commands
    """

    tensors: dict[str, int]
    buffers: dict[str, int]
    l1_bytes: int
    stacks: int
    code: int
    schedule: int

    @classmethod
    def of(cls, built: KernelProgram, chip: SocSpec) -> "Footprint":
        """Read it off a program that is built."""
        buffers = in_l1(built.program, chip)
        tensors = built.family.tensors(built.arguments)
        named = {name: t.size for name, t in tensors.items() if t.role != "scratch"}
        objects = [s for s in built.program.symbols if s.kind == "object"]
        return cls(
            named,
            {s.name: s.size for s in buffers},
            l1_bytes(built.program, chip),
            STACK * chip.cores,
            sum(len(s.data) for s in built.program.segments if s.address <= built.program.entry
                < s.address + len(s.data)),
            sum(s.size for s in objects if s not in buffers and s.name not in named),
        )  # fmt: skip

"""List scheduling of straight-line code: what waits for a result, or for the FPU, comes later.

What is on the longest path to the end goes first. While a division or a root is under way no other
operation of the FPU begins (soc.core.fpu), so loads and stores come then.

Source: S. Muchnick, Advanced Compiler Design and Implementation, section 17.1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from firmware.code import Instruction, Item, Label
from isa.assembler.names import has_float_registers
from isa.declare import Isa
from soc.core.fp_div_sqrt import PULP_CYCLES, THEAD_MOST, THEAD_START

DIVISIONS = ("fdiv", "fsqrt")
FPU = ("fpu", *DIVISIONS)
MEMORY = ("load", "store")
MOVABLE = (*FPU, *MEMORY, "alu", "mul")  # all else stays where it is
X_REGISTERS = ("rd", "rs1", "rs2", "rs3")
F_REGISTERS = ("fd", "fs1", "fs2", "fs3")
UNKNOWN = -1  # an instruction whose word depends on where it lies
LABEL, END = -2, -3  # a label; one of a hardware loop, maybe before its last instruction
LATE = 2
"""Cycles from the issue of a load, or an operation of the FPU, to that of what needs its result."""


def scheduled(isa: Isa, items: Sequence[Item]) -> tuple[list[Item], int]:
    """The same code in another order, and its cycles if no access loses its bank.

    Labels stay where they are, the last instruction of a hardware loop, and what is neither
    arithmetic nor a plain access to memory. What is between stays as it is if it would not take
    fewer cycles. Two accesses by different pointers that are only advanced are to different bytes,
    or what one stores depends on what the other has loaded.
    """
    order, cycles = _order(isa, tuple(_words(items)))
    return [items[place] for place in order], cycles


def _words(items: Sequence[Item]) -> Iterator[int]:
    """The words of instructions, for others and labels LABEL, END or UNKNOWN."""
    made = [item for item in items if isinstance(item, Instruction)]
    loops = [instruction for instruction in made if instruction.insn.timing == "hwloop"]
    ends = {value for loop in loops for value in loop.operands.values()}
    for item in items:
        if isinstance(item, Label):
            yield END if item in ends else LABEL
        else:
            yield UNKNOWN if item.word is None else item.word


@lru_cache(4096)
def _order(isa: Isa, words: tuple[int, ...]) -> tuple[list[int], int]:
    """Places in their new order, and cycles, given words."""
    found: list[int] = []
    block: list[_Node] = []
    cycles, before = 0, UNKNOWN
    for place, word in enumerate(words):
        node = None if before == END or word < 0 else _node(isa, word, place)
        before = word
        if node:
            block.append(node)
            continue
        order, taken = _fastest(isa, block)
        found += [*order, place]
        cycles += taken + (word not in (LABEL, END))
        block = []
    order, taken = _fastest(isa, block)
    return found + order, cycles + taken


@dataclass(eq=False)
class _Node:
    """An instruction of a block.

    place    where it was
    timing   of isa.declare.TIMINGS
    reads, writes    registers, as their file and number
    base     register of an access's pointer
    after    what issues before it, with the cycles from that issue to its own
    serves   number of the first division that it is or that needs it; past the last one's for what
             none needs
    height   cycles from its issue to the last one that follows from it
    """

    place: int
    timing: str
    reads: frozenset[tuple[str, int]]
    writes: frozenset[tuple[str, int]]
    base: tuple[str, int] | None
    after: dict["_Node", int] = field(default_factory=dict)
    serves: int = 0
    height: int = 0


def _node(isa: Isa, word: int, place: int) -> _Node | None:
    """None for what stays where it is, among it the markers of regions, which write x0."""
    meant = isa.decode(word)
    if meant is None or meant.insn.timing not in MOVABLE:
        return None
    insn, operands = meant.insn, meant.operands
    if insn.timing == "alu" and not operands.get("rd"):
        return None
    files = dict.fromkeys(X_REGISTERS, "x")
    files |= dict.fromkeys(F_REGISTERS, "f" if has_float_registers(isa) else "x")
    stored = ("rs2", "fs2") if insn.timing == "store" else ()
    loaded = ("rd", "fd") if insn.timing == "load" else ()

    def registers(*names: str) -> frozenset[tuple[str, int]]:
        return frozenset((files[n], operands[n]) for n in names if n in files and n in operands)

    both = registers(*insn.reads, *stored), registers(*insn.writes, *loaded)
    base = ("x", operands["rs1"]) if insn.timing in MEMORY else None
    return _Node(place, insn.timing, *both, base)


def _fastest(isa: Isa, block: Sequence[_Node]) -> tuple[list[int], int]:
    """The order of a block, and its cycles."""
    is_pulp = isa.name.startswith("ri5cy")
    division = PULP_CYCLES[0] + 1 if is_pulp else THEAD_START + THEAD_MOST
    _connect(block, division)
    orders = block, list(_in_turn(block, division))
    cycles = [_cycles(order, division) for order in orders]
    best = orders[cycles[1] < cycles[0]]
    return [node.place for node in best], min(cycles)


def _connect(block: Sequence[_Node], division: int) -> None:
    """Find what each instruction follows, and what follows from it."""
    late = dict.fromkeys(DIVISIONS, division) | {"fpu": LATE, "load": LATE}
    computed = frozenset[tuple[str, int]]().union(*(node.writes - node.reads for node in block))
    for node in block:
        for earlier in block[: node.place - block[0].place]:
            met = earlier.writes & (node.reads | node.writes)
            if met and not (earlier.timing in MEMORY and met <= earlier.reads):
                node.after[earlier] = late.get(earlier.timing, 1)
            elif met or earlier.reads & node.writes or _may_meet(earlier, node, computed):
                node.after[earlier] = 1  # met: a pointer that it advances
    divisions = [node for node in block if node.timing in DIVISIONS]
    for node in block:
        node.serves = len(divisions)
    for number, node in enumerate(divisions):
        node.serves = number
    for node in reversed(block):
        for earlier, gap in node.after.items():
            earlier.serves = min(earlier.serves, node.serves)
            earlier.height = max(earlier.height, gap + node.height)


def _may_meet(one: _Node, other: _Node, computed: frozenset[tuple[str, int]]) -> bool:
    """May two accesses be to the same bytes, and one a store?

    computed    registers that get new values in the block: pointers among them may be any
    """
    timings = {one.timing, other.timing}
    if not timings <= {*MEMORY} or "store" not in timings:
        return False
    return one.base == other.base or one.base in computed or other.base in computed


class _Pipeline:
    """A core that issues instructions in order.

    issued      cycle of each one's issue
    cycle       the next one
    free        when other operations of the FPU than divisions may begin
    returned    when all results of the FPU are there, which a division waits for
    """

    def __init__(self, division: int) -> None:
        self.division = division
        self.issued: dict[_Node, int] = {}
        self.cycle = self.free = self.returned = 0

    def start(self, node: _Node) -> int:
        """When an instruction would issue."""
        start = self.cycle
        if node.timing in FPU:
            start = max(start, self.returned if node.timing in DIVISIONS else self.free)
        return max([start, *(self.issued[earlier] + gap for earlier, gap in node.after.items())])

    def issue(self, node: _Node) -> None:
        start = self.issued[node] = self.start(node)
        self.cycle = start + 1
        if node.timing in DIVISIONS:
            self.free = self.returned = start + self.division
        elif node.timing in FPU:
            self.returned = start + LATE


def _in_turn(block: Sequence[_Node], division: int) -> Iterator[_Node]:
    """The block, divisions in their order and each as soon as may be, accesses while they run."""
    pipeline = _Pipeline(division)
    missing = {node: len(node.after) for node in block}

    def rank(node: _Node) -> tuple[int, ...]:
        return pipeline.start(node), node.serves, -node.height, node.place

    while missing:
        node = min((node for node, count in missing.items() if not count), key=rank)
        pipeline.issue(node)
        del missing[node]
        for later in missing:
            missing[later] -= node in later.after
        yield node


def _cycles(order: Sequence[_Node], division: int) -> int:
    pipeline = _Pipeline(division)
    for node in order:
        pipeline.issue(node)
    return pipeline.cycle

"""What each core of a team can do by itself, as trainlib.tiling.per_core_loop walks it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from firmware.builder import Kernel, Label, Register

TAKEN, FEW = 6, 3  # registers that hold what cores walk items with; where there are few


class Code(Protocol):
    """The code of a core's items, its registers taken.

    places     by tensor, what holds where an item's part begins: of the input and the output that
               come and go when a block's first round begins, of others when what stays is loaded
    scratch    four registers that hold nothing between two rounds; the last two may be places
    has_few    are there few registers? Then scratch has two more, and stops load again what is the
               same for all of them
    """

    places: Mapping[str, Register]
    scratch: list[Register]
    has_few: bool

    def load(self) -> None:
        """Emit what loads what stays for all of an item."""

    def walk(self, kind: int, count: Register, start: Label) -> None:
        """Emit a hardware loop of so many rounds, what begins a block before it; place its start.

        Whoever sets the loop's count and jumps to the start goes on with the same block.
        """

    def end(self, kind: int) -> None:
        """Emit what follows the last round of a block."""


@dataclass(frozen=True)
class Block:
    """A part of an item that has rounds of its own.

    kind              those of a kind have the same code; kinds are counted from 0
    source, result    bytes from where the item's input and output begin to where the block's do
    """

    kind: int
    source: int = 0
    result: int = 0


class Begin(NamedTuple):
    """Where code of a block begins.

    first, other    labels: with its first line, with another one; they are placed
    load            loads which of them
    """

    first: Label
    other: Label
    load: Callable[[], Register]


class CutCode(Code, Protocol):
    """Code of items that may be computed from any line on, and up to any line.

    loop    the number of the hardware loop over lines
    """

    loop: int

    def walk(self, kind: int, count: Register, start: Label, begin: Begin | None = None) -> None:
        """Likewise; None: with the first line."""

    def end_inside(self, kind: int) -> None:
        """Emit what follows the last round where lines of the block are left."""


@dataclass(frozen=True)
class Cuts:
    """How lines of an item may be computed by themselves; its code is CutCode then.

    span     given a line and the end of some, the bytes of the source that they read
    step     bytes of the source from where code begins with a line to where it does with the next
    line     bytes of a line of the result
    front    lines of an item that begin with its first one alone
    back     lines at its end that what follows the last round writes, where none are left
    begun    cycles to begin a block with another line than the first one, nearly
    above    lines of an item that code computes before its first round
    """

    span: Callable[[int, int], tuple[int, int]]
    step: int
    line: int
    front: int = 0
    back: int = 0
    begun: float = 0
    above: int = 0


@dataclass(frozen=True)
class Alone:
    """Items that cores can compute by themselves, round by round, all alike.

    items              how many there are, each an equal part of every tensor: the first one first
    blocks             of an item, one after the other
    rounds             of a block
    cycles             of a round, nearly
    source, result     the input and the output that come and go item by item; all else is small
    read               bytes of an item's source that the first so many rounds of a block read
    written            bytes of an item's result that are there when the last block has done so many
    code               given a kernel, the code of a core's items
    lines              of a round
    begun              lines that a block begins with, before its rounds
    cuts               where cores may share an item's rounds, of a line each
    others             other ways to compute the same, one of which may be faster then
    summed             the tensor, of an equal part for each item, of which code stores what the
                       item's lines, or some of them, add up to, at a place that it is given as of
                       what is loaded; the result comes as the source does then
    """

    items: int
    blocks: tuple[Block, ...]
    rounds: int
    cycles: float
    source: str
    result: str
    read: Callable[[int], int]
    written: Callable[[int], int]
    code: Callable[[Kernel], Code]
    lines: int = 1
    begun: int = 0
    cuts: Cuts | None = None
    others: tuple["Alone", ...] = ()
    summed: str | None = None

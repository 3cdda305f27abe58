"""Which bytes of L1 and L2 a program has, by its sections, buffers, stacks and arenas.

A program without the symbols of soc.chip.stacks does not say where its stacks are, nor what else it
has: then it has all that there is.
"""

from collections.abc import Iterator

import numpy as np

from isa.program import Program, Symbol
from soc.chip.shadow import GIVEN, PADDED, READ_ONLY, SYNC, WRITTEN
from soc.chip.spec import SocSpec
from soc.chip.stacks import stack_bounds
from soc.chip.state import Chip

WORD = 4
ARENAS = ("__l1_arena", "__l1_arena_end"), ("__l2_arena", "__l2_arena_end")
TAKEN = "__arenas_taken"
"""Words that hold how far each arena is given away. Without it a program has all of them."""

SYNC_PREFIX = "sync_"
"""Of names of objects by which harts synchronise, with loads and stores alone."""

PADDED_PREFIXES = {"padded_halves_": 2, "padded_words_": WORD}
"""Of names of buffers whose rows end with padding, and bytes of an element: the one after one that
is written may be loaded, too; of halves, only the upper one of a word."""


def lay_out(chip: Chip, spec: SocSpec, program: Program) -> None:
    """Set the state of every byte before the first instruction; watch the arenas' words."""
    bytes_ = Bytes(chip, spec)
    known = stack_bounds(program, spec.cores)
    if not known:
        bytes_.mark(spec.l1.base, spec.l1.base + spec.l1.size, GIVEN)
        bytes_.mark(spec.l2.base, spec.l2.base + spec.l2.size, GIVEN)
    for start, end in (*known, *_buffers(program), *_open_arenas(program)):
        bytes_.mark(start, end, GIVEN)
    for start, end, is_constant in _parts(program):
        bytes_.mark(start, end, GIVEN | (READ_ONLY if is_constant else 0))
    for segment in program.segments:
        bytes_.mark(segment.address, segment.address + len(segment.data), GIVEN | WRITTEN)
    for symbol in program.symbols:
        if symbol.name.startswith(SYNC_PREFIX):
            bytes_.mark(symbol.address, symbol.address + symbol.size, SYNC)
        for prefix, size in PADDED_PREFIXES.items():
            if symbol.name.startswith(prefix):
                bytes_.mark_padded(symbol.address, symbol.address + symbol.size, size)
    taken = _symbol(program, TAKEN)
    if taken:
        end = taken.address + taken.size
        chip.recorder["watched"], chip.recorder["watched_end"] = taken.address, end


class Bytes:
    """The states of all bytes of a chip, by address."""

    def __init__(self, chip: Chip, spec: SocSpec):
        states = chip.bytes.view(np.uint8)
        self.memories = (
            (spec.l1.base, states[: spec.l1.size]),
            (spec.l2.base, states[spec.l1.size :]),
        )

    def mark(self, start: int, end: int, bits: int) -> None:
        """Add bits to the states of bytes, as far as they are in memory."""
        for base, states in self.memories:
            first, last = max(start - base, 0), min(end - base, states.size)
            if first < last:
                states[first:last] |= bits

    def mark_padded(self, start: int, end: int, size: int) -> None:
        """Let all bytes be padding, if elements are words; else the upper half of each word."""
        for base, states in self.memories:
            first, last = max(start - base, 0), min(end - base, states.size)
            if first < last:
                is_in = np.arange(first, last) % WORD >= WORD - size
                states[first:last][is_in] |= PADDED


def _buffers(program: Program) -> Iterator[tuple[int, int]]:
    for symbol in program.symbols:
        if symbol.kind == "object" and symbol.size:
            yield symbol.address, symbol.address + symbol.size


def _open_arenas(program: Program) -> Iterator[tuple[int, int]]:
    """Arenas of which the program does not say how far they are given away."""
    for names in ARENAS:
        start, end = (_symbol(program, name) for name in names)
        if start and end and not _symbol(program, TAKEN):
            yield start.address, end.address


def _parts(program: Program) -> Iterator[tuple[int, int, bool]]:
    """Sections, or else segments, and whether a program may not write to them."""
    for section in program.sections:
        yield section.address, section.address + section.size, not section.writable
    if not program.sections:
        for segment in program.segments:
            yield segment.start, segment.start + segment.size, not segment.writable


def _symbol(program: Program, name: str) -> Symbol | None:
    try:
        return program.symbol(name)
    except KeyError:
        return None

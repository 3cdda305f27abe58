"""Nests over halves as nests over words, where two neighbours make a word in every tensor."""

from collections.abc import Sequence
from dataclasses import replace

from trainlib.codegen.nest_operands import Operand, merged
from trainlib.primitive.element import BITS, F32
from trainlib.primitive.tensor import WORD

HALF = BITS.size


def in_words(
    dims: Sequence[int], sources: Sequence[Operand], targets: Sequence[Operand]
) -> tuple[tuple[int, ...], list[Operand], list[Operand]] | None:
    """Dimensions, sources and targets in words; None if some neighbours do not make one.

    Sources that stay while the innermost dimension goes on are halves still. Tensors begin with a
    word.
    """
    space = merged(dims, [*sources, *targets])
    (*outer, inner), operands = space
    is_whole = all(map(_is_whole, operands))
    stores_all = all(operand.steps[-1] == HALF for operand in operands[len(sources) :])
    if inner % 2 or not (is_whole and stores_all):
        return None
    words = [_in_words(operand) if operand.steps[-1] else operand for operand in operands]
    return (*outer, inner // 2), words[: len(sources)], words[len(sources) :]


def _is_whole(operand: Operand) -> bool:
    *outer, inner = operand.steps
    if not inner:
        return True
    return inner == HALF and not any(step % WORD for step in (*outer, operand.shift))


def _in_words(operand: Operand) -> Operand:
    return replace(operand, steps=(*operand.steps[:-1], WORD), element=F32)

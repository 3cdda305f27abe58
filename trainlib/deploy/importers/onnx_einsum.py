"""ONNX's Einsum as nodes: sums, transposes and products of matrices, two operands at a time."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.aten_elements import reduced
from trainlib.deploy.importers.aten_importer import Importer
from trainlib.deploy.importers.aten_layers import product
from trainlib.deploy.importers.aten_shapes import gathered, permuted
from trainlib.deploy.importers.onnx_elements import Attributes, Names, Rule, text

ELLIPSIS, OTHERS = "...", "0123456789"


def terms_of(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Letters of the operands and of the result; axes of an ellipsis are digits, the last one 0.

    raises    DeployError for another count of operands, or of axes
    """
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise DeployError(f"{equation} has {len(terms)} operands; there are {len(ranks)}")
    most = 0
    for number, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        rest = rank - len(term.replace(ELLIPSIS, ""))
        if rest < 0 or (rest and ELLIPSIS not in term):
            raise DeployError(f"{equation}: {term} has other axes than the {rank} of its operand")
        most = max(most, rest)
        terms[number] = term.replace(ELLIPSIS, OTHERS[:rest][::-1])
    every = OTHERS[:most][::-1]
    if not arrow:
        letters = "".join(terms)
        result = ELLIPSIS + "".join(
            c for c in sorted({*letters} - {*OTHERS}) if letters.count(c) == 1
        )
    return terms, result.replace(ELLIPSIS, every)


def _diagonal(i: Importer, x: str, term: str) -> tuple[str, str]:
    """A letter that comes twice is along both axes at once."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            shape = i.graph.values[x].shape
            numbers = np.arange(prod(shape)).reshape(shape)
            x = gathered(i, x, np.diagonal(numbers, 0, first, second))
            term = "".join(c for n, c in enumerate(term) if n not in (first, second)) + letter
    return x, term


def _summed(i: Importer, x: str, term: str, needed: str) -> tuple[str, str]:
    """Without the axes that nothing else has."""
    axes = [axis for axis, letter in enumerate(term) if letter not in needed]
    if not axes:
        return x, term
    return reduced(i, x, axes, False, "sum"), "".join(c for c in term if c in needed)


def _joined(i: Importer, a: tuple[str, str], b: tuple[str, str], needed: str) -> tuple[str, str]:
    """A product: letters of both that are needed are batches, others are added up."""
    (first, left), (second, right) = a, b
    shapes = (*i.graph.values[first].shape, *i.graph.values[second].shape)
    sizes = dict(zip(left + right, shapes, strict=True))
    for letter, n in zip(left, i.graph.values[first].shape, strict=True):
        if sizes[letter] != n:
            raise DeployError(
                f"an axis of {n} and one of {sizes[letter]} for {letter}; they are one"
            )
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in needed]
    terms = [c for c in shared if c not in needed]
    rows, columns = ([c for c in term if c not in shared] for term in (left, right))

    def matrices(name: str, term: str, *groups: list[str]) -> str:
        order = tuple(term.index(c) for group in groups for c in group)
        size = [prod(sizes[c] for c in group) for group in groups]
        return i.graph.reshaped(permuted(i, name, order), tuple(size))

    given = (
        matrices(first, left, batch, rows, terms),
        matrices(second, right, batch, terms, columns),
    )
    if not batch:
        given = tuple(i.graph.reshaped(name, i.graph.values[name].shape[1:]) for name in given)  # type: ignore[assignment]
    y, letters = product(i, *given), [*batch, *rows, *columns]
    return i.graph.reshaped(y, tuple(sizes[c] for c in letters) or (1,)), "".join(letters)


def _einsum(i: Any, x: Names, a: Attributes) -> str:
    terms, result = terms_of(text(a["equation"]), [len(i.shape(name)) for name in x])
    found = [_diagonal(i, i.name(name), term) for name, term in zip(x, terms, strict=True)]
    while len(found) > 1:
        rest = "".join(term for _, term in found[2:]) + result
        pair = [_summed(i, *found[number], rest + found[1 - number][1]) for number in range(2)]
        found = [_joined(i, pair[0], pair[1], rest), *found[2:]]
    y, term = _summed(i, *found[0], result)
    if not result:
        return y
    return permuted(i, y, tuple(term.index(letter) for letter in result))


RULES: dict[str, Rule] = {"Einsum": _einsum}

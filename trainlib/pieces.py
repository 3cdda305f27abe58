"""Products in two pieces: what all cores have as many rows or columns of, and what is left over.

In one piece some cores have a row more than others, which wait for them; a piece of the rows left
over alone is dealt out by its columns.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from firmware.builder import Kernel, Register
from trainlib.kernels import WORD, Address
from trainlib.operands import Operands

AROUND = 60  # cycles of a piece beside those of its parts, nearly


@dataclass(frozen=True)
class Piece:
    """C[i:i+n, j:j+m], and how it is computed."""

    i: int
    j: int
    n: int
    m: int
    point: Any

    @contextmanager
    def operands(self, k: Kernel, x: Operands) -> Iterator[Operands]:
        """The product of the piece alone; addresses in registers are moved there and back."""
        moves = {
            "a": self.i * x.a_row,
            "b": self.j * x.b_column,
            "c": self.i * x.c_row + WORD * self.j,
            "bias": self.i * x.bias_row + self.j * x.bias_column,
        }
        with ExitStack() as stack:
            at: dict[str, Any] = {
                name: stack.enter_context(_moved(k, getattr(x, name), move))
                for name, move in moves.items()
            }
            yield replace(x, **at)


@contextmanager
def _moved(k: Kernel, address: Address | None, step: int) -> Iterator[Address | None]:
    if isinstance(address, Register):
        _move(k, address, step)
        yield address
        _move(k, address, -step)
    else:
        yield address if address is None else address + step


def _move(k: Kernel, register: Register, step: int) -> None:
    if step:
        with k.scope():
            k.add_constant(register, register, step, k.x())


def pieces_of(
    x: Operands, n: int, m: int, cores: int, choose: Callable[[int, int], tuple[int, Any]]
) -> list[Piece]:
    """One or two of them, whatever takes the fewest cycles, nearly.

    choose    cycles and point of a product of so many rows and columns
    """
    addresses = [a for a in (x.a, x.b, x.c, x.bias) if isinstance(a, Register)]
    whole, point = choose(n, m)
    found = [(whole, [Piece(0, 0, n, m, point)])]
    even_rows, even_columns = n // cores * cores, m // cores * cores
    if len(set(addresses)) == len(addresses):
        if 0 < even_rows < n:
            found.append(_cut([(0, 0, even_rows, m), (even_rows, 0, n - even_rows, m)], choose))
        if 0 < even_columns < m:
            found.append(
                _cut([(0, 0, n, even_columns), (0, even_columns, n, m - even_columns)], choose)
            )
    return min(found, key=lambda pieces: pieces[0])[1]


def _cut(
    places: list[tuple[int, int, int, int]], choose: Callable[[int, int], tuple[int, Any]]
) -> tuple[int, list[Piece]]:
    chosen = [choose(n, m) for _, _, n, m in places]
    cycles = sum(cycles + AROUND for cycles, _ in chosen)
    return cycles, [Piece(*at, point) for at, (_, point) in zip(places, chosen, strict=True)]

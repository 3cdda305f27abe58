"""Products in pieces: rectangles of C, each with a blocking of its own and cores that share it.

Which ones there are, trainlib.gemm.partition says.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from firmware.builder import LT, Kernel, Register
from firmware.runtime import Team
from trainlib.gemm.operands import Operands
from trainlib.primitive.tensor import Address


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
            "c": self.i * x.c_row + x.c_column * self.j,
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


@dataclass(frozen=True)
class Share:
    """Cores first .. first+cores-1, and the pieces that they compute, one after the other."""

    first: int
    cores: int
    pieces: tuple[Piece, ...]


class Group(Team):
    """Cores first .. first+cores-1 of a team, numbered from 0; they meet with the others."""

    def __init__(self, team: Team, first: int, cores: int) -> None:
        super().__init__(team.k, cores)
        self.team, self.first = team, first

    def core(self, rd: Register) -> None:
        """Load the number of the core in the group."""
        self.team.core(rd)
        if self.first:
            self.k.addi(rd, rd, -self.first)


def emit_shares(
    k: Kernel, team: Team, shares: Sequence[Share], emit: Callable[[Team, Piece], None]
) -> None:
    """Emit the code of all shares, in the order of their cores; a core runs that of its own."""
    with k.scope():
        core, end = k.x(2)
        if len(shares) > 1:
            team.core(core)
        _emit_own(k, team, core, end, shares, emit)


def _emit_own(
    k: Kernel,
    team: Team,
    core: Register,
    end: Register,
    shares: Sequence[Share],
    emit: Callable[[Team, Piece], None],
) -> None:
    share, *others = shares
    if not others:
        with k.scope():
            k.free(core, end)
            for piece in share.pieces:
                emit(Group(team, share.first, share.cores), piece)
        return
    k.li(end, share.first + share.cores)
    with k.if_(LT, core, end):
        _emit_own(k, team, core, end, [share], emit)
    with k.else_():
        _emit_own(k, team, core, end, others, emit)

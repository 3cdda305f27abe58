"""Where what one step of a recurrent layer gives the next is, as its tiles follow each other.

Tiles read it from one buffer in L1 and leave it in another, and exchange both when a step is done.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from firmware.builder import EQ, Kernel, Register
from firmware.runtime import Team
from trainlib.primitive.tensor import WORD, Address

NOW, NEXT, COLUMN = (WORD * word for word in range(3))
"""Words of a tile's state: where h is, where the next step's comes, bytes to the tile's sums."""
STATE = 16  # bytes


class State:
    """Where what one step gives the next is: words in L1.

    ends    two buffers: what is read is in one of them, but for the first step
    sums    of a step
    rows    of a tile: as many sums
    """

    def __init__(
        self,
        k: Kernel,
        team: Team,
        at: Address,
        ends: tuple[Address, Address],
        sums: int,
        rows: int,
    ) -> None:
        self.k, self.team, self.at, self.ends = k, team, at, ends
        self.row, self.step = WORD * sums, WORD * rows

    def begin(self, now: Address, following: Address) -> None:
        """Let the first step begin."""
        k = self.k
        with self.team.only(0), k.scope():
            place, value = k.x(2)
            k.set(place, self.at)
            for slot, address in ((NOW, now), (NEXT, following), (COLUMN, 0)):
                k.set(value, address)
                k.sw(value, slot, place)
        self.team.barrier()

    @contextmanager
    def loaded(self) -> Iterator[list[Register]]:
        """The words."""
        k = self.k
        with k.scope():
            words = k.x(3)
            k.set(words[2], self.at)
            for register, slot in zip(words, (NOW, NEXT, COLUMN), strict=True):
                k.lw(register, slot, words[2])
            yield words

    def end(self) -> None:
        """Go on to the next sums, or to the next step."""
        k = self.k
        with self.team.only(0), k.scope():
            place, column, value, other = k.x(4)
            k.set(place, self.at)
            k.lw(column, COLUMN, place)
            k.add_constant(column, column, self.step, value)
            k.li(value, self.row)
            with k.if_(EQ, column, value):
                k.lw(value, NEXT, place)
                k.sw(value, NOW, place)
                k.set(other, self.ends[0])
                k.sub(value, other, value)
                k.set(other, self.ends[1])
                k.add(value, other, value)
                k.sw(value, NEXT, place)
                k.li(column, 0)
            k.sw(column, COLUMN, place)

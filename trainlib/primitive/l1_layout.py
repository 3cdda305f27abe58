"""How the part of a tensor that a tile needs lies in L1, where that is not row after row: as data.

A form is made of patches: elements at equal distances along a few dimensions, both where they come
from and where they go to. The DMA copies them one command each, nearly; see
trainlib.tiling.dma_commands.
"""

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from trainlib.primitive.tensor import WORD


class Level(NamedTuple):
    """A dimension of a patch: how many elements, and bytes from one to the next.

    far     in L2, or wherever they come from
    near    in L1, or where they go to
    """

    times: int
    far: int
    near: int


class Patch(NamedTuple):
    """Elements that are copied alike: bytes to the first one on either side, and all of them."""

    far: int
    near: int
    levels: tuple[Level, ...]
    item: int = WORD

    @property
    def bytes(self) -> int:
        """Of all its elements, of `item` bytes each."""
        return self.item * prod(level.times for level in self.levels)

    @property
    def runs(self) -> tuple[int, list[Level]]:
        """Bytes that lie together on both sides, and what repeats them, innermost first."""
        run, levels = self.item, list[Level]()
        for times, far, near in sorted(self.levels, key=lambda level: level[1:]):
            if times == 0:
                return 0, []
            if times == 1:
                continue
            last = levels[-1] if levels else Level(run // self.item, self.item, self.item)
            follows = far == last.far * last.times and near == last.near * last.times
            if follows and not levels:
                run *= times
            elif follows:
                levels[-1] = Level(last.times * times, last.far, last.near)
            else:
                levels.append(Level(times, far, near))
        return run, levels


@dataclass(frozen=True)
class Form:
    """The layout of a part in L1.

    size       bytes
    patches    far bytes count from the first element of the part, near ones from the buffer's start
    """

    size: int
    patches: tuple[Patch, ...]

    @property
    def bytes(self) -> int:
        """That are copied."""
        return sum(patch.bytes for patch in self.patches)


class Effort(NamedTuple):
    """The DMA's work for a part: numbers, or arrays of them.

    bytes       that it copies
    run         of these, how many lie together on both sides
    commands    that it takes
    """

    bytes: Any
    run: Any
    commands: Any

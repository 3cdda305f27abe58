"""Blocks of sums of a gradient of weights as tasks, which cores share so that all end together.

A task is a block of rows and channels for one tap along lines; some read fewer lines than others,
and blocks of what is left over have fewer sums. What stands for each is two words of a table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import groupby
from typing import NamedTuple

from trainlib.codegen.work_split import heights
from trainlib.primitive.tensor import WORD

TASK = 2 * WORD  # bytes in the table
HALF = 16  # bits of each of a task's four numbers; no count of lines has the highest one
END = (1 << 32) - 1  # instead of a task's second word: there are no more with such a block


class Block(NamedTuple):
    """A block of sums by its size; sizes that differ have code of their own."""

    rows: int
    channels: int


class Task(NamedTuple):
    """A block, its first row and channel, and its tap along lines."""

    block: Block
    row: int
    channel: int
    tap: int


def tasks_of(size: tuple[int, int], block: Block, taps: int) -> Iterator[Task]:
    """All tasks of so many rows and channels in blocks of that size, and of what is left over."""
    for row, height in _steps(size[0], block.rows):
        for channel, depth in _steps(size[1], block.channels):
            for tap in range(taps):
                yield Task(Block(height, depth), row, channel, tap)


def _steps(size: int, step: int) -> Iterator[tuple[int, int]]:
    """Where blocks begin, and their sizes."""
    start = 0
    for length, times in heights(size, step).items():
        for _ in range(times):
            yield start, length
            start += length


@dataclass(frozen=True)
class Shares:
    """Tasks of each core, and the cycles of the slowest."""

    cores: Sequence[Sequence[Task]]
    cycles: float

    @classmethod
    def of(cls, tasks: Sequence[tuple[float, Task]], cores: int) -> "Shares":
        """The longest tasks first, each to the core that has the least to do.

        tasks    with the cycles of each
        """
        loads: list[tuple[float, int]] = [(0.0, core) for core in range(cores)]
        heapify(loads)
        own: list[list[Task]] = [[] for _ in range(cores)]
        for cycles, task in sorted(tasks, key=lambda each: -each[0]):
            load, core = loads[0]
            heapreplace(loads, (load + cycles, core))
            own[core].append(task)
        return cls(own, max(loads)[0])

    @property
    def blocks(self) -> list[Block]:
        """The blocks that there are."""
        return sorted({task.block for own in self.cores for task in own}, reverse=True)

    def table(self, words: dict[Task, tuple[int, int]]) -> tuple[bytes, int]:
        """The table: for each core and block its tasks, and an end; and bytes for each core.

        words    of each task
        """
        lists = []
        for own in self.cores:
            by_block = {block: list(some) for block, some in groupby(sorted(own), _block)}
            found = []
            for block in self.blocks:
                found += [words[task] for task in by_block.get(block, [])]
                found.append((0, END))
            lists.append(found)
        most = max(map(len, lists))
        flat = (
            word for own in lists for pair in own + [(0, END)] * (most - len(own)) for word in pair
        )
        return b"".join(word.to_bytes(WORD, "little") for word in flat), TASK * most


def _block(task: Task) -> Block:
    return task.block

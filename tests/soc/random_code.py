"""Random programs for the instruction cache: straight code, jumps, branches, hardware loops."""

from random import Random

import numpy as np

from tests.soc.icache.fetch_bench import BASE, BRANCH, JUMP, PLAIN, ROW, STOP

SLOW = (1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 5, 9)
"""Cycles in EX to choose from."""


class RandomCode:
    """A program under construction; every instruction is marked."""

    def __init__(self, random: Random, longest: int):
        self.random = random
        self.longest = longest
        self.rows: list[np.void] = []
        self.costs = SLOW if random.random() < 0.6 else (1,)
        self.compressed = random.choice((0, 0, 0.3, 0.5, 1))

    @property
    def here(self) -> int:
        return BASE + 2 * len(self.rows)

    def emit(self, size: int, kind: int = PLAIN, **fields: int) -> np.void:
        """Add an instruction; returns its row, whose target may come later."""
        rows = np.zeros(size // 2, ROW)
        rows["size"] = 2
        rows["cost"] = self.random.choice(self.costs) if kind == PLAIN else 1
        rows["mark"] = 1
        rows[0]["size"] = size
        rows[0]["kind"] = kind
        for name, value in fields.items():
            rows[0][name] = value
        self.rows += [row.copy() for row in rows]
        return self.rows[-len(rows)]

    def straight(self, count: int) -> None:
        for _ in range(count):
            self.emit(2 if self.random.random() < self.compressed else 4)

    def align(self) -> None:
        """Let what follows begin at a word."""
        if len(self.rows) % 2:
            self.emit(2)

    def skip(self, row: np.void) -> None:
        """Let row jump over some instructions."""
        self.straight(self.random.randrange(8))
        row["target"] = self.here
        self.straight(1)

    def hardware_loop(self) -> None:
        self.align()
        start = self.here
        self.straight(self.random.randrange(1, 11))
        self.loop_end(start)
        self.straight(self.random.randrange(3))

    def loop_end(self, start: int) -> None:
        size = 2 if self.random.random() < self.compressed else 4
        self.emit(size, loop=self.random.randrange(1, 6), target=start)

    def loop_with_a_jump_to_its_end(self) -> None:
        """The end begins at a word: riscv_prefetch_buffer.sv may lose others that it jumps to."""
        self.align()
        start = self.here
        self.straight(self.random.randrange(3))
        if self.random.random() < 0.5:
            jump = self.emit(4, JUMP)
        else:
            jump = self.emit(4, BRANCH, every=self.random.choice((1, 2, -2)))
        self.straight(self.random.randrange(12))
        self.align()
        jump["target"] = self.here
        self.loop_end(start)

    def fetch_ahead(self) -> None:
        """Lines anywhere, each asked for by a loop's end after a branch that is always taken."""
        for _ in range(self.random.randrange(1, 4)):
            self.align()
            start = self.here
            self.straight(self.random.randrange(1, 3))
            leave = self.emit(4, BRANCH, every=self.random.randrange(2, 6))
            self.emit(4, BRANCH, every=1, target=start)
            self.align()
            self.emit(4, loop=2, target=BASE + 2 * self.random.randrange(600))
            leave["target"] = self.here
            self.straight(1)

    def branch_loop(self) -> None:
        start = self.here
        self.straight(self.random.randrange(1, 20))
        self.emit(4, BRANCH, every=-self.random.randrange(1, 4), target=start)

    def segment(self) -> None:
        kind = self.random.random()
        if kind < 0.35:
            self.straight(self.random.randrange(1, self.longest))
        elif kind < 0.5:
            self.hardware_loop()
        elif kind < 0.6:
            self.loop_with_a_jump_to_its_end()
        elif kind < 0.7:
            self.fetch_ahead()
        elif kind < 0.8:
            self.skip(self.emit(4 if self.random.random() < 0.7 else 2, JUMP))
        elif kind < 0.9:
            self.skip(self.emit(4, BRANCH, every=self.random.choice((1, 2, 3))))
        else:
            self.branch_loop()

    def program(self) -> np.ndarray:
        """Some segments, passed through several times."""
        self.straight(self.random.randrange(4))
        start = self.here
        for _ in range(self.random.randrange(1, 10)):
            self.segment()
        self.emit(4, BRANCH, every=-self.random.randrange(1, 4), target=start)
        self.emit(4, STOP)
        self.emit(4, JUMP, target=self.here)
        return np.array(self.rows, ROW)

"""Tensors: operands of primitives, and how they lie in L2 and in L1."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from firmware.builder import Register

WORD = 4  # bytes; of an element, too, unless it is a half
BANKS = 16
FLOAT32, INT32 = np.dtype("<f4"), np.dtype("<i4")

Address = int | Register
Addresses = Mapping[str, Address]
Arrays = Mapping[str, np.ndarray]
Role = Literal["in", "out", "inout", "scratch"]


@dataclass(frozen=True)
class Tensor:
    """An operand.

    shape    elements, row-major; at least one
    role     "in", "out", "inout": read and then overwritten; "scratch": in L1 only, undefined
    dtype    FLOAT32, INT32, or halves: FP16, bfloat16
    pad      words after each row (of the last dimension) in L1, undefined: so rows that are read
             side by side begin in different banks
    skew     words, modulo the 16 banks, from one row to the next in L1, whatever a tile has of
             the rows; None: as pad says
    bank     that its buffers in L1 begin in; None: any
    packed   do rows of halves follow each other in L1? Else each begins with a word
    stays    does each part of it, read by several tiles, stay in L1 once it is there?
    below    random integers are from 0 to below - 1
    is_index must those that are given be so, too?
    steps    bytes in L2 from an element to the next, by axis, of a part of a larger tensor; None:
             row-major
    joined   the last axes that make a row in L1 together, without gaps between them
    reads_on does code that reads a row also load the first word of the pad? Of halves that begin
             with words, code may load the second half of a row's last word in any case
    """

    shape: tuple[int, ...]
    role: Role = "in"
    dtype: np.dtype = FLOAT32
    pad: int = 0
    skew: int | None = None
    bank: int | None = None
    packed: bool = False
    stays: bool = False
    below: int = 2
    is_index: bool = False
    steps: tuple[int, ...] | None = None
    joined: int = 1
    reads_on: bool = False

    @property
    def elements(self) -> int:
        """How many it has."""
        return prod(self.shape)

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def size(self) -> int:
        """Bytes in L2."""
        return self.item * self.elements

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes in L2 from an element to the next, by axis."""
        if self.steps is not None:
            return self.steps
        return tuple(self.item * prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @property
    def row(self) -> int:
        """Bytes from one row to the next in L1."""
        return self.row_of(prod(self.shape[-self.joined :])) if self.shape else self.item

    def row_of(self, length: Any) -> Any:
        """The same for rows of so many elements, or for an array of such lengths."""
        if self.packed:
            return length * self.item
        words = -(-length * self.item // WORD)
        gap = self.pad if self.skew is None else (self.skew - words) % BANKS
        return WORD * (words + gap)

    @property
    def l1_size(self) -> int:
        """Bytes in L1."""
        return prod(self.shape[: -self.joined]) * self.row

    @property
    def padding(self) -> str:
        """How the name of a buffer of it begins that tells checks what code may load; "": nothing.

        See soc.check.given.
        """
        if self.reads_on:
            return "padded_words_"
        return "padded_halves_" if self.item < WORD and not self.packed else ""

    @property
    def slack(self) -> int:
        """Bytes that a buffer has more, so that it can begin in any bank."""
        return 0 if self.bank is None else WORD * BANKS

    def random(self, numbers: np.random.Generator) -> np.ndarray:
        """Draw its values: normally distributed, or integers."""
        if self.dtype == INT32:
            return numbers.integers(0, self.below, self.shape).astype(INT32)
        return numbers.standard_normal(self.shape, np.float32).astype(self.dtype)


Tensors = Mapping[str, Tensor]

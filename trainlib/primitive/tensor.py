"""Tensors: operands of primitives, and how they lie in L2 and in L1."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np

from firmware.builder import Register

WORD = 4  # bytes of an element: float32 and int32
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
    dtype    FLOAT32 or INT32
    pad      words behind each row (of the last dimension) in L1, undefined: so rows that are read
             side by side begin in different banks
    skew     words, modulo the 16 banks, from one row to the next in L1, whatever a tile has of
             the rows; None: as pad says
    bank     that its buffers in L1 begin in; None: any
    stays    does each part of it, read by several tiles, stay in L1 once it is there?
    below    random integers are from 0 to below - 1
    is_index must those that are given be so, too?
    steps    bytes in L2 from an element to the next, by axis, of a part of a larger tensor; None:
             row-major
    """

    shape: tuple[int, ...]
    role: Role = "in"
    dtype: np.dtype = FLOAT32
    pad: int = 0
    skew: int | None = None
    bank: int | None = None
    stays: bool = False
    below: int = 2
    is_index: bool = False
    steps: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """How many it has."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes in L2."""
        return WORD * self.elements

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes in L2 from an element to the next, by axis."""
        if self.steps is not None:
            return self.steps
        return tuple(WORD * prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @property
    def row(self) -> int:
        """Bytes from one row to the next in L1."""
        return self.row_of(self.shape[-1]) if self.shape else WORD

    def row_of(self, length: Any) -> Any:
        """The same for rows of so many elements, or for an array of such lengths."""
        gap = self.pad if self.skew is None else (self.skew - length) % BANKS
        return WORD * (length + gap)

    @property
    def l1_size(self) -> int:
        """Bytes in L1."""
        return prod(self.shape[:-1]) * self.row

    @property
    def slack(self) -> int:
        """Bytes that a buffer has more, so that it can begin in any bank."""
        return 0 if self.bank is None else WORD * BANKS

    def random(self, numbers: np.random.Generator) -> np.ndarray:
        """Draw its values: normally distributed, or integers."""
        if self.dtype == INT32:
            return numbers.integers(0, self.below, self.shape).astype(INT32)
        return numbers.standard_normal(self.shape, np.float32)


Tensors = Mapping[str, Tensor]

"""What a primitive is: its arguments, its tensors, their meaning, and the code that computes them.

A file of primitives ends in FAMILIES, a tuple of Family; trainlib.primitives lists the files.

The code is an emitter, with which all primitives have the same contract:

    def fill_f32(k: Kernel, team: Team, y: Address, count: int, *, value: float = 0.0)

    Address     an operand's byte address in L1: a number, or a register that holds it, lives for
                the whole kernel and is not changed
    shapes      element counts, bytes from row to row, options: numbers while it is built
    cores       all of the team execute it; it deals the work out to them
    barriers    those that it needs between its own parts; none at its end, that is the caller's

So one function of a program can be called for every buffer of the same shape.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from firmware.builder import Kernel, Register
from firmware.runtime import Team

if TYPE_CHECKING:
    from trainlib.phases import Phases
    from trainlib.tiling import Tiling

WORD = 4  # bytes of an element: float32 and int32
BANKS = 16
FLOAT32, INT32 = np.dtype("<f4"), np.dtype("<i4")

Address = int | Register
Addresses = Mapping[str, Address]
Arrays = Mapping[str, np.ndarray]
Role = Literal["in", "out", "inout", "scratch"]
Expected = tuple[np.ndarray, np.ndarray | float]
"""Exact values (float64, or integers), and the largest errors that are correct; 0 for integers."""


def pair_of(value: Any) -> Any:
    """One number for both directions, or what there is for each."""
    return (value, value) if isinstance(value, int) else value


class Arguments(BaseModel):
    """What every primitive's [program.args] has; its own come from a subclass.

    cores      None: all of the chip
    seed       of random inputs
    tile       sizes of tiles by dimension, for tensors in L2; those left out are chosen. Of phases,
               {"dX": {"rows": 8}} or {"dX.rows": 8} is for dX alone. None: no tiles if all fits L1
    buffers    of each tensor in L1: 1 to copy, then compute; 2 for both at the same time
    warm       compute twice from the same values, and measure the second time, when the caches
               have the instructions
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cores: int | None = Field(None, ge=1, le=16)
    seed: int = Field(0, ge=0, lt=1 << 63)
    tile: dict[str, int] | None = None
    buffers: int = Field(2, ge=1, le=2)
    warm: bool = False

    @field_validator("tile", mode="before")
    @classmethod
    def _by_phase(cls, tile: Any) -> Any:
        """Tables of phases as names with dots."""
        if not isinstance(tile, dict):
            return tile
        flat: dict[str, Any] = {}
        for name, size in tile.items():
            is_phase = isinstance(size, dict)
            flat |= {f"{name}.{d}": n for d, n in size.items()} if is_phase else {name: size}
        return flat


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


@dataclass(frozen=True)
class Family:
    """A primitive at all its shapes and points.

    name         what `kernel` in a config's [program] says
    arguments    model of [program.args]
    tensors      operands by name; a KernelError says what is wrong with arguments together
    reference    outputs by name from inputs by name, those read and overwritten as they were before
    macs         multiply-adds
    emit_l1      emit the computation, given L1 addresses by name; None: as one tile
    tiling       how it is cut into tiles; None: its tensors fit L1
    draw         random inputs that are not as Tensor.random has them, by name
    phases       computations by tiles one after the other, where not all fits L1 and there is no
                 tiling, or no tile of it fits
    emit_l2      emit the computation, given L2 addresses by name, where not all fits L1: several
                 primitives
    emit_end     emit what follows when all outputs are in L2, given L2 addresses by name
    """

    name: str
    arguments: type[Arguments]
    tensors: Callable[[Any], Tensors]
    reference: Callable[[Any, Arrays], Mapping[str, Expected]]
    macs: Callable[[Any], int]
    emit_l1: Callable[[Kernel, Team, Any, Addresses], None] | None = None
    tiling: Callable[[Any], "Tiling"] | None = None
    draw: Callable[[Any, np.random.Generator], Arrays] | None = None
    phases: Callable[[Any], "Phases"] | None = None
    emit_l2: Callable[[Kernel, Team, Any, Mapping[str, int]], None] | None = None
    emit_end: Callable[[Kernel, Team, Any, Mapping[str, int]], None] | None = None

    def random(self, point: Any) -> dict[str, np.ndarray]:
        """Draw all inputs from the seed."""
        numbers = np.random.default_rng(point.seed)
        values = {
            name: tensor.random(numbers)
            for name, tensor in self.tensors(point).items()
            if tensor.role in ("in", "inout")
        }
        return values | dict(self.draw(point, numbers) if self.draw else {})

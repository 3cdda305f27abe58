"""The declaration of a primitive: arguments, tensors, their meaning, the code that computes them.

A file of primitives ends in FAMILIES, a tuple of Family: see trainlib.calls.primitives.

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
from typing import Any

import numpy as np

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.primitive.arguments import CommonArguments
from trainlib.primitive.phases import Phases
from trainlib.primitive.tensor import Addresses, Arrays, Tensors
from trainlib.primitive.tile_spec import Tiling

Expected = tuple[np.ndarray, np.ndarray | float]
"""Exact values (float64, or integers), and the largest errors that are correct; 0 for integers."""


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
    arguments: type[CommonArguments]
    tensors: Callable[[Any], Tensors]
    reference: Callable[[Any, Arrays], Mapping[str, Expected]]
    macs: Callable[[Any], int]
    emit_l1: Callable[[Kernel, Team, Any, Addresses], None] | None = None
    tiling: Callable[[Any], Tiling] | None = None
    draw: Callable[[Any, np.random.Generator], Arrays] | None = None
    phases: Callable[[Any], Phases] | None = None
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

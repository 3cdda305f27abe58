"""A layer, and a point, which is a way to compute it: plain frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from soc.config.validation import Layer as Source
from soc.config.validation import validated
from trainlib.primitive.operator import Family
from trainlib.registry import family_of

Items = tuple[tuple[str, Any], ...]
"""A small table as a frozen value."""


@dataclass(frozen=True)
class Layer:
    """A computation, without how it is done.

    kernel       a primitive of trainlib: "conv2d_fw_f32"
    arguments    those that were given, by name
    """

    kernel: str
    arguments: Items

    @classmethod
    def of(cls, kernel: str, arguments: Mapping[str, Any], source: str = "") -> "Layer":
        """Check the arguments.

        source    where they were written, for messages

        raises    ConfigError for an unknown kernel or bad arguments, with every mistake
        """
        layer = cls(kernel, tuple(sorted((n, _frozen(v)) for n, v in arguments.items())))
        layer.checked({}, source)
        return layer

    @property
    def family(self) -> Family:
        """Its primitive."""
        return family_of(self.kernel)

    @property
    def given(self) -> dict[str, Any]:
        """Its arguments by name."""
        return {name: _thawed(value) for name, value in self.arguments}

    @cached_property
    def macs(self) -> int:
        """Multiply-adds."""
        return self.family.macs(self.checked({}))

    def checked(self, more: Mapping[str, Any], source: str = "") -> Any:
        """The primitive's arguments, with more of them."""
        prefix = "args." if source else ""
        given = Source(source or self.kernel, self.given | dict(more), prefix=prefix)
        return validated(self.family.arguments, [given])


@dataclass(frozen=True)
class Point:
    """A way to compute a layer.

    tile         sizes by dimension; None: all of it is in L1 at once
    kernel       the method, the block of sums and the split: see autotuner.blockings
    buffers      1: copy, then compute; 2: both at the same time
    is_phased    in phases, by several primitives one after the other, or by each core alone; sizes
                 that the tile leaves out are chosen, "steps.batch" is for the phase "steps" alone
    """

    tile: Items | None
    kernel: Items
    buffers: int
    cores: int
    is_phased: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """As arguments of the primitive."""
        tile = {} if self.tile is None else {"tile": dict(self.tile)}
        return {**tile, **dict(self.kernel), "buffers": self.buffers, "cores": self.cores}

    @property
    def volume(self) -> int:
        """Elements of the tile's loops; 0 where all is in L1."""
        return prod(size for _, size in self.tile or ())

    @property
    def tile_shown(self) -> str:
        """The tile as a person reads it."""
        if self.is_phased:
            return _by_phase(self.tile or ()) or "own tiles"
        return "all in L1" if self.tile is None else shown(self.tile)

    @property
    def kernel_shown(self) -> str:
        """The blocking as a person reads it."""
        return shown(self.kernel) or "own blocking"

    def __str__(self) -> str:
        return "  ".join(
            [self.tile_shown, self.kernel_shown, f"{self.buffers} buf", f"{self.cores}c"]
        )


def shown(items: Items) -> str:
    """A small table as a person reads it: "co=4 split=8x1"."""
    return " ".join(f"{n}={'x'.join(map(str, v)) if isinstance(v, tuple) else v}" for n, v in items)


def _by_phase(tile: Items) -> str:
    """Format sizes phase by phase: "step=1, dX: rows=8 inputs=16"."""
    phases: dict[str, list[tuple[str, Any]]] = {}
    for name, size in tile:
        phase, _, dim = name.rpartition(".")
        phases.setdefault(phase, []).append((dim, size))
    texts = ((phase, shown(tuple(sizes))) for phase, sizes in phases.items())
    return ", ".join(f"{phase}: {text}" if phase else text for phase, text in texts)


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return ("table", tuple(sorted((n, _frozen(v)) for n, v in value.items())))
    return ("array", tuple(map(_frozen, value))) if isinstance(value, list | tuple) else value


def _thawed(value: Any) -> Any:
    if isinstance(value, tuple):
        kind, parts = value
        if kind == "table":
            return {name: _thawed(part) for name, part in parts}
        return tuple(map(_thawed, parts))
    return value

"""Arguments that primitives have in common."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from soc.chip.spec import MOST_CORES

USUAL_CORES = 8
"""Of a cluster: what is estimated before a team is known counts on them."""


def pair_of(value: Any) -> Any:
    """One number for both directions, or what there is for each."""
    return (value, value) if isinstance(value, int) else value


class CommonArguments(BaseModel):
    """Arguments that every primitive has; a subclass adds its own.

    cores      None: all of the chip
    seed       of random inputs
    warm       compute twice from the same values, and measure the second time, when the caches
               have the instructions
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cores: int | None = Field(None, ge=1, le=MOST_CORES)
    seed: int = Field(0, ge=0, lt=1 << 63)
    warm: bool = False

    @property
    def likely_cores(self) -> int:
        """Those that are asked for, or as many as there usually are."""
        return self.cores or USUAL_CORES

    def on(self, cores: int) -> Self:
        """The same for a team of so many cores, where it is not said how many."""
        return self if self.cores else self.model_copy(update={"cores": cores})


class TiledArguments(CommonArguments):
    """Arguments of a primitive whose tensors may be larger than L1.

    tile       sizes of tiles by dimension, for tensors in L2; those left out are chosen. Of phases,
               {"dX": {"rows": 8}} or {"dX.rows": 8} is for dX alone. {}: cores may each have items
               of their own instead, see trainlib.tiling.per_core_loop. None: no tiles if all fits
               L1
    buffers    of each tensor in L1: 1 to copy, then compute; 2 for both at the same time
    """

    tile: dict[str, int] | None = None
    buffers: int = Field(2, ge=1, le=2)

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

"""Small programs for studies: a team in lock step, and a body whose second pass is measured.

All cores leave the barrier in the same cycle, and the first pass has filled the instruction caches
and left the banks' arbiters as such a pass leaves them. Between barrier and region nothing touches
L1. The `nop` after a body lets its last access be granted inside the region.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from firmware.builder import EQ, Kernel
from firmware.registers import ZERO
from firmware.runtime import Team
from soc.chip.spec import SocSpec
from soc.config.toml import merged, nested
from soc.config.validation import Layer, validated

PASSES = 2


class Passes:
    """Two passes of a body, of which the second is measured.

    The registers that it has taken must not change.
    """

    def __init__(self, k: Kernel, team: Team) -> None:
        self.k, self.team = k, team
        self.left, self.last = k.x(2)

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        """Meet at the barrier, then measure the body in the second pass."""
        k, number = self.k, self.k.region_number(name)
        self.team.barrier()
        with self.in_second():
            k.slti(ZERO, ZERO, 2 * number)
        yield
        k.nop()
        k.slti(ZERO, ZERO, 2 * number + 1)

    def in_second(self) -> AbstractContextManager[None]:
        """Run the body in the second pass only."""
        return self.k.if_(EQ, self.left, self.last)


@contextmanager
def lock_step(k: Kernel, team: Team) -> Iterator[Passes]:
    """Run the body twice, and meet at its end, so that no core that is done disturbs the others."""
    with k.scope():
        passes = Passes(k, team)
        k.li(passes.left, PASSES)
        k.li(passes.last, 1)
        with k.loop(passes.left):
            yield passes
        team.barrier()


def chip_with(chip: SocSpec, changes: Mapping[str, Any]) -> SocSpec:
    """A chip with some fields changed: {"cores": 16, "l1.banks": 32}.

    A chip with more cores than DMA ports gets as many ports as there may be.

    raises    ConfigError
    """
    table = merged(chip.model_dump(), nested(changes))
    table["dma"]["ports"] = max(table["dma"]["ports"], min(table["cores"] + 2, 16))
    return validated(SocSpec, [Layer(f"chip {chip.name}", table)])

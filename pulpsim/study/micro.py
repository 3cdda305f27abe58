"""Small programs for studies: a team in lock step, and a body whose second pass is measured.

All cores leave the barrier in the same cycle, and the first pass has filled the instruction caches
and left the banks' arbiters as such a pass leaves them. Between barrier and region nothing touches
L1. The `nop` behind a body lets its last access be granted inside the region.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from firmware.builder import EQ, Kernel
from firmware.registers import ZERO
from firmware.runtime import Team
from soc.spec import SocSpec
from soc.toml_file import Layer, merged, nested, validated

PASSES = 2
Region = Callable[[str], AbstractContextManager[None]]


@contextmanager
def lock_step(k: Kernel, team: Team) -> Iterator[Region]:
    """Run the body twice; what it yields measures a region in the second pass.

    The region begins with a barrier, and there is one more at the end, so that no core that is done
    disturbs the others.
    """
    with k.scope():
        left, last = k.x(2)
        k.li(left, PASSES)
        k.li(last, 1)

        @contextmanager
        def region(name: str) -> Iterator[None]:
            number = k.region_number(name)
            team.barrier()
            with k.if_(EQ, left, last):
                k.slti(ZERO, ZERO, 2 * number)
            yield
            k.nop()
            k.slti(ZERO, ZERO, 2 * number + 1)

        with k.loop(left):
            yield region
        team.barrier()


def chip_with(chip: SocSpec, changes: Mapping[str, Any]) -> SocSpec:
    """A chip with some fields changed: {"cores": 16, "l1.banks": 32}.

    A chip with more cores than DMA ports gets as many ports as there may be.

    raises    ConfigError
    """
    table = merged(chip.model_dump(), nested(changes))
    table["dma"]["ports"] = max(table["dma"]["ports"], min(table["cores"] + 2, 16))
    return validated(SocSpec, [Layer(f"chip {chip.name}", table)])

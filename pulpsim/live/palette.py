"""What cycles are spent on, in a few kinds: each with a letter, and a colour for colour-blind eyes.

Colours: Okabe and Ito, "Color Universal Design" (2008).
"""

from dataclasses import dataclass

from soc.state import CAUSES


@dataclass(frozen=True)
class Kind:
    """A kind of cycle of a hart.

    letter    for where there are no colours
    causes    of stalls that belong to it, of soc.state.CAUSES
    """

    name: str
    letter: str
    colour: str
    causes: tuple[str, ...] = ()


RUN = Kind("runs", "█", "#009e73")
STALLS = (
    Kind("conflict", "x", "#d55e00", ("l1_contention",)),
    Kind("L2, device", "m", "#e69f00", ("load_external", "store_external")),
    Kind("fetch", "f", "#cc79a7", ("fetch",)),
    Kind("asleep", "z", "#56b4e9", ("event", "wfi")),
    Kind("off", ".", "#808080", ("off",)),
)
_NAMED = {cause for kind in STALLS for cause in kind.causes}
PIPELINE = Kind("pipeline", "p", "#f0e442", tuple(c for c in CAUSES if c not in _NAMED))
KINDS = (RUN, *STALLS[:3], PIPELINE, *STALLS[3:])
"""In the order of bars."""

ROWS_OF_KIND = [[CAUSES.index(cause) for cause in kind.causes] for kind in KINDS]

HEAT = (
    *("#15102b", "#2d1152", "#4f127b", "#721f81", "#932b80", "#b5367a"),
    *("#d6456c", "#ee5b5e", "#fb8761", "#feb078", "#fed799", "#fcfdbf"),
)
"""From no conflict to many: lightness alone tells them apart."""

SHADES = " .:-=+*#%@"
"""The same without colours."""

BLOCKS = " ▁▂▃▄▅▆▇█"

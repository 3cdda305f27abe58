"""Kinds of cycles, each with a letter, and a colour that colour-blind eyes tell apart.

Colours: Okabe and Ito, "Color Universal Design" (2008); on a light ground some of them darker.
"""

from dataclasses import dataclass

from soc.prelude.counters import CAUSES


@dataclass(frozen=True)
class Kind:
    """A kind of cycle of a hart.

    letter     which names it where colours do not
    meaning    for the legend
    causes     of stalls that belong to it, of soc.prelude.counters.CAUSES
    dark       colour on a dark ground
    light      colour on a light one
    """

    name: str
    letter: str
    meaning: str
    dark: str
    light: str
    causes: tuple[str, ...] = ()


RUN = Kind("runs", "█", "an instruction issues", "#009e73", "#008060")
_CONFLICT = Kind(
    "conflict", "x", "waits for a bank of L1", "#d55e00", "#d55e00", ("l1_contention",)
)
_OUTSIDE = Kind(
    *("L2", "m", "waits for L2 or a device", "#e69f00", "#e69f00"),
    ("load_external", "store_external"),
)
_FETCH = Kind("fetch", "f", "waits for the instruction", "#cc79a7", "#c46a9c", ("fetch",))
_ASLEEP = Kind(
    "asleep", "z", "sleeps: barrier, event, interrupt", "#56b4e9", "#56b4e9", ("event", "wfi")
)
_OFF = Kind("off", ".", "is not started", "#808080", "#b0b0b0", ("off",))
_NAMED = {cause for kind in (_CONFLICT, _OUTSIDE, _FETCH, _ASLEEP, _OFF) for cause in kind.causes}
_PIPELINE = Kind(
    *("pipeline", "p", "hazard, branch, division or FPU", "#f0e442", "#d8c800"),
    tuple(cause for cause in CAUSES if cause not in _NAMED),
)
KINDS = (RUN, _CONFLICT, _OUTSIDE, _FETCH, _PIPELINE, _ASLEEP, _OFF)
"""In the order of bars."""

ROWS_OF_KIND = [[CAUSES.index(cause) for cause in kind.causes] for kind in KINDS]

HEAT = (
    *("#15102b", "#2d1152", "#4f127b", "#721f81", "#932b80", "#b5367a"),
    *("#d6456c", "#ee5b5e", "#fb8761", "#feb078", "#fed799", "#fcfdbf"),
)
"""From no conflict to many: lightness alone tells them apart."""

BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Colours:
    """The colours of one ground.

    kinds     of KINDS
    heat      from nothing to most
    cursor    ground of the current cycle's column
    """

    kinds: tuple[str, ...]
    heat: tuple[str, ...]
    series: str
    cursor: str
    label: str
    strong: str
    changed: str
    alarm: str


DARK = Colours(
    kinds=tuple(kind.dark for kind in KINDS),
    heat=HEAT,
    series="#56b4e9",
    cursor="#ffffff",
    label="#9a9a9a",
    strong="#ffffff",
    changed="#f0e442",
    alarm="#ff8c66",
)
LIGHT = Colours(
    kinds=tuple(kind.light for kind in KINDS),
    heat=("#f1eef6", *HEAT[:0:-1][1:], "#000004"),
    series="#2a7fb8",
    cursor="#000000",
    label="#5f5f5f",
    strong="#000000",
    changed="#a03c00",
    alarm="#b03000",
)

"""Which instructions a segment has: the way that the program most likely goes. See soc.segments."""

from itertools import pairwise
from typing import NamedTuple

from soc.chip_state import Chip
from soc.decode import (
    BRANCH,
    COUNTED,
    DIVISION,
    FPU,
    HWLOOP,
    LOAD,
    LOOP_END,
    MARKER,
    STORE,
    UNDECODED,
)
from soc.hot_code import ACCESS

LONGEST = 16
"""Instructions of a segment."""


NONE = -1


class Place(NamedTuple):
    """An instruction of a segment.

    row     its number
    pc      its address
    loop    number of the hardware loop that ends with it, as far as a hart knows; or NONE
    """

    row: int
    pc: int
    loop: int


class Segment(NamedTuple):
    """What begins with the access (ACCESS) or the issue (ISSUE) of the first row.

    All of it is found out at one time: harts set up other hardware loops later.

    places    of its instructions, and of the one that likely comes behind
    pauses    it ends because the hart may not run ahead any further
    leaves    the end of the hardware loop that it leaves, or NONE
    way_out   the same where the first loop that goes back in it is left; None if none does
    """

    begins: int
    places: list[Place]
    pauses: bool
    leaves: int
    way_out: "Segment | None" = None

    @property
    def symbol(self) -> str:
        """Of its machine code."""
        return f"segment_{self.places[0].row}_{self.begins}{'_left' if self.leaves >= 0 else ''}"

    @property
    def ways(self) -> "list[Segment]":
        """All that is translated together."""
        return [self, self.way_out] if self.way_out else [self]


def goes_back(chip: Chip, place: Place, behind: Place) -> bool:
    """Does a hardware loop end here, and go back?"""
    return place.loop != NONE and behind.pc != place.pc + int(chip.code[place.row]["size"])


def segment_from(chip: Chip, index: int, begins: int, leaves: int = NONE) -> Segment | None:
    """Follow the program from a row on, as it most likely goes; see Segment for `leaves`.

    None if it comes to the end of a hardware loop of which no hart knows now where it goes back to.
    """
    segment = _followed(chip, index, begins, leaves)
    if not all(_is_clear(chip, each, leaves) for each in segment.places[:-1]):
        return None
    for place, behind in pairwise(segment.places[1 if begins == ACCESS else 0 :]):
        if leaves == NONE and goes_back(chip, place, behind):
            return segment._replace(way_out=segment_from(chip, index, begins, place.pc))
    return segment


def _is_clear(chip: Chip, place: Place, leaves: int) -> bool:
    """Is it known where the program goes on behind an instruction?"""
    is_end = chip.code[place.row]["flags"] & LOOP_END and place.pc != leaves
    return not is_end or place.loop != NONE


def _place(chip: Chip, pc: int) -> Place:
    row = (pc - int(chip.config[0]["code_base"])) >> 1
    ends = chip.harts["lp_last"] == pc
    return Place(row, pc, int(ends.any(axis=0).argmax()) if ends.any() else NONE)


def _followed(chip: Chip, index: int, begins: int, leaves: int) -> Segment:
    places = [_place(chip, int(chip.config[0]["code_base"]) + 2 * index)]
    last = 0  # latest issue, from the cycle in which the segment begins
    if begins == ACCESS:
        places.append(_behind(chip, places[-1], leaves))
        last = int(chip.code[index]["late_load"] & chip.code[places[-1].row]["uses_load"] != 0)
    while True:
        row = chip.code[places[-1].row]
        if not _is_fit(chip, places[-1]) or len(places) > LONGEST:
            return Segment(begins, places, False, leaves)
        if last >= chip.config[0]["lookahead"]:
            return Segment(begins, places, True, leaves)
        places.append(_behind(chip, places[-1], leaves))
        if row["kind"] in (LOAD, STORE):
            return Segment(begins, places, False, leaves)
        last += _cycles(chip, *places[-2:])


def _is_fit(chip: Chip, place: Place) -> bool:
    """Is it certain how many cycles the instruction can take?"""
    config, row = chip.config[0], chip.code[place.row]
    kind = row["kind"]
    if kind == UNDECODED or row["flags"] & MARKER:
        return False
    if kind == HWLOOP:
        return bool(row["flags"] & COUNTED)
    if kind > BRANCH:
        return False
    if kind == FPU and config["fpu_latency"] > 1:  # its result may compete for a port
        return False
    if kind == BRANCH and config["ri5cy"]:  # taken, it waits for a division behind it
        behind = chip.code[min(place.row + int(row["size"]) // 2, int(config["rows"]) - 1)]
        return behind["kind"] != UNDECODED and not behind["flags"] & DIVISION
    return True


def _behind(chip: Chip, place: Place, leaves: int) -> Place:
    """What likely comes next; outside of the code memory, the same again, which never comes."""
    behind = _place(chip, _likely_next(chip, place, leaves))
    return behind if 0 <= behind.row < chip.config[0]["rows"] else place


def _cycles(chip: Chip, place: Place, behind: Place) -> int:
    """The most cycles until the instruction behind one can issue."""
    row, after = chip.code[place.row], chip.code[behind.row]
    cycles = 4 if row["kind"] == BRANCH else 1
    if row["late_fpu"] & after["uses_fpu"]:
        cycles += int(chip.config[0]["fpu_latency"])
    return cycles


def _likely_next(chip: Chip, place: Place, leaves: int) -> int:
    """Where an instruction most likely goes on: back in loops, else straight on."""
    row = chip.code[place.row]
    if row["flags"] & LOOP_END and place.loop != NONE and place.pc != leaves:
        hart = chip.harts[(chip.harts["lp_last"][:, place.loop] == place.pc).argmax()]
        return int(hart["lp_start"][place.loop])
    if row["kind"] == BRANCH and row["imm"] < 0:
        return place.pc + int(row["imm"])
    return place.pc + int(row["size"])


def row_behind(chip: Chip, place: Place) -> int | None:
    """The row of what follows a branch in memory, if the branch has to wait for that: see _is_fit.

    It is decoded then.
    """
    row = chip.code[place.row]
    waits = row["kind"] == BRANCH and chip.config[0]["ri5cy"]
    return place.row + int(row["size"]) // 2 if waits else None


def rows_of(chip: Chip, segment: Segment) -> list[int]:
    """The rows on which a segment's machine code depends."""
    places = [place for way in segment.ways for place in way.places]
    behind = (row_behind(chip, place) for way in segment.ways for place in way.places[:-1])
    return sorted({*(place.row for place in places), *(row for row in behind if row is not None)})


def content(chip: Chip, segment: Segment) -> bytes:
    """All that the text of a segment depends on, besides the step functions."""
    rows = rows_of(chip, segment)
    return chip.config.tobytes() + chip.code[rows].tobytes() + repr(segment).encode()

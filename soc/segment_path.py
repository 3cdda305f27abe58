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


class Place(NamedTuple):
    """An instruction of a segment: its row's number, and its address."""

    row: int
    pc: int


class Segment(NamedTuple):
    """What begins with the access (ACCESS) or the issue (ISSUE) of the first row.

    places    of its instructions, and of the one that likely comes behind
    pauses    it ends because the hart may not run ahead any further
    leaves    the end of the hardware loop that it leaves, or -1
    """

    begins: int
    places: list[Place]
    pauses: bool
    leaves: int = -1

    @property
    def symbol(self) -> str:
        return f"segment_{self.places[0].row}_{self.begins}{'_left' if self.leaves >= 0 else ''}"


def way_out(chip: Chip, segment: Segment) -> Segment | None:
    """The same where the first hardware loop that goes back in it is left; None if none does."""
    for place, behind in pairwise(segment.places[1 if segment.begins == ACCESS else 0 :]):
        if segment.leaves < 0 and goes_back(chip, place, behind):
            return segment_from(chip, segment.places[0].row, segment.begins, place.pc)
    return None


def ways_from(chip: Chip, segment: Segment) -> list[Segment]:
    """All that is translated together."""
    way = way_out(chip, segment)
    return [segment, way] if way else [segment]


def goes_back(chip: Chip, place: Place, behind: Place) -> bool:
    """Does a hardware loop end here, and go back?"""
    row = chip.code[place.row]
    return bool(row["flags"] & LOOP_END) and behind.pc != place.pc + int(row["size"])


def segment_from(chip: Chip, index: int, begins: int, leaves: int = -1) -> Segment | None:
    """Follow the program from a row on, as it most likely goes; see Segment for `leaves`.

    None if it comes to the end of a hardware loop of which no hart knows now where it goes back to.
    """
    segment = _followed(chip, index, begins, leaves)
    return segment if all(_is_clear(chip, each, leaves) for each in segment.places[:-1]) else None


def _is_clear(chip: Chip, place: Place, leaves: int) -> bool:
    """Is it known where the program goes on behind an instruction?"""
    is_end = chip.code[place.row]["flags"] & LOOP_END and place.pc != leaves
    return not is_end or bool((chip.harts["lp_last"] == place.pc).any())


def _followed(chip: Chip, index: int, begins: int, leaves: int) -> Segment:
    pc = int(chip.config[0]["code_base"]) + 2 * index
    places = [Place(index, pc)]
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
        behind = chip.code[min(place.row + int(row["size"]) // 2, chip.code.size - 1)]
        return behind["kind"] != UNDECODED and not behind["flags"] & DIVISION
    return True


def _behind(chip: Chip, place: Place, leaves: int) -> Place:
    """What likely comes next; outside of the code memory, the same again, which never comes."""
    pc = likely_next(chip, place, leaves)
    index = (pc - int(chip.config[0]["code_base"])) >> 1
    return Place(index, pc) if 0 <= index < chip.code.size else place


def _cycles(chip: Chip, place: Place, behind: Place) -> int:
    """The most cycles until the instruction behind one can issue."""
    row, after = chip.code[place.row], chip.code[behind.row]
    cycles = 4 if row["kind"] == BRANCH else 1
    if row["late_fpu"] & after["uses_fpu"]:
        cycles += int(chip.config[0]["fpu_latency"])
    return cycles


def likely_next(chip: Chip, place: Place, leaves: int) -> int:
    """Where an instruction most likely goes on: back in loops, else straight on."""
    row = chip.code[place.row]
    if row["flags"] & LOOP_END and place.pc != leaves:
        for hart in chip.harts:
            for loop in range(2):
                if hart["lp_last"][loop] == place.pc:
                    return int(hart["lp_start"][loop])
    if row["kind"] == BRANCH and row["imm"] < 0:
        return place.pc + int(row["imm"])
    return place.pc + int(row["size"])


def loop_that_ends(chip: Chip, place: Place) -> int:
    """Return the number of the hardware loop that ends with an instruction."""
    return 0 if (chip.harts["lp_last"][:, 0] == place.pc).any() else 1


def content(chip: Chip, segment: Segment) -> bytes:
    """All that the text of a segment depends on, besides the step functions."""
    ways = ways_from(chip, segment)
    places = [place for way in ways for place in way.places]
    rows = [place.row for place in places]
    loops = [loop_that_ends(chip, place) for place in places]
    return chip.config.tobytes() + chip.code[rows].tobytes() + repr((ways, loops)).encode()

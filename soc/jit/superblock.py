"""Superblocks: instructions that a program most likely executes one after the other.

A superblock has one entry and, at each instruction after which the program may go another way, a
side exit (Hwu et al., The Superblock, 1993).
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from soc.chip.state import Chip
from soc.core.hotness import ACCESS
from soc.prelude.decoded import (
    BEFORE_LOOP_END,
    BRANCH,
    COUNTED,
    DIVISION,
    FPU,
    HWLOOP,
    JUMP,
    LOAD,
    LOOP_END,
    MARKER,
    STORE,
    UNDECODED,
)

LONGEST = 16
"""Instructions of a superblock."""
REACH = 1 << 13
"""Half-words between the set-up of a hardware loop and its end, at most."""


NONE = -1


class Place(NamedTuple):
    """An instruction of a superblock.

    row     its number
    pc      its address
    loop    number of the hardware loop that ends with it, as far as a hart knows; or NONE
    """

    row: int
    pc: int
    loop: int


class Superblock(NamedTuple):
    """Instructions from the access (ACCESS) or the issue (ISSUE) of the first one on.

    All of it is found out at one time: harts set up other hardware loops later.

    places       of its instructions, and of the one that likely comes after them
    pauses       it ends because the hart may not run ahead any further
    left_loop    the last instruction of the hardware loop that it leaves, or NONE
    side_exit    the superblock that goes on where the first loop that goes back in this one is
                 left; None if none does
    """

    begins: int
    places: list[Place]
    pauses: bool
    left_loop: int
    side_exit: "Superblock | None" = None

    @property
    def symbol(self) -> str:
        """Of its machine code."""
        suffix = "_left" if self.left_loop >= 0 else ""
        return f"superblock_{self.places[0].row}_{self.begins}{suffix}"

    @property
    def parts(self) -> "list[Superblock]":
        """All that is translated together."""
        return [self, self.side_exit] if self.side_exit else [self]


def goes_back(chip: Chip, place: Place, following: Place) -> bool:
    """Does a hardware loop end here, and go back?"""
    return place.loop != NONE and following.pc != place.pc + int(chip.code[place.row]["size"])


def superblock_from(
    chip: Chip, index: int, begins: int, left_loop: int = NONE
) -> Superblock | None:
    """Follow the program from a row on, as it most likely goes; see Superblock for `left_loop`.

    None if it comes to the end of a hardware loop of which no hart knows now where it goes back to.
    """
    superblock = _followed(chip, index, begins, left_loop)
    if not all(_is_clear(chip, each, left_loop) for each in superblock.places[:-1]):
        return None
    for place, following in pairwise(superblock.places[1 if begins == ACCESS else 0 :]):
        if left_loop == NONE and goes_back(chip, place, following):
            return superblock._replace(side_exit=superblock_from(chip, index, begins, place.pc))
    return superblock


def fetch_turns(chip: Chip, place: Place, following: Place | None, left_loop: int) -> bool:
    """Does the fetch likely go elsewhere by the time when this instruction is handed over?

    It jumps, or ends a hardware loop that goes back, or is right before such an end. No hart need
    be in that loop now.

    following    the instruction after it, if that is known
    """
    row = chip.code[place.row]
    if row["kind"] == JUMP or row["flags"] & LOOP_END and place.pc != left_loop:
        return True
    is_before = row["flags"] & BEFORE_LOOP_END and place.pc + int(row["size"]) != left_loop
    if not is_before:
        return False
    return following is None or bool(chip.code[following.row]["flags"] & LOOP_END)


def _is_clear(chip: Chip, place: Place, left_loop: int) -> bool:
    """Is it known where the program goes on after an instruction?"""
    is_end = chip.code[place.row]["flags"] & LOOP_END and place.pc != left_loop
    return not is_end or place.loop != NONE or not _is_set_up(chip, place)


def _is_set_up(chip: Chip, place: Place) -> bool:
    """May an instruction have set up a hardware loop that ends here?

    Code that fetches other code sets up one by a CSR for every line, and never again.
    """
    first = max(place.row - REACH, 0)
    rows = chip.code[first : place.row]
    setups = np.flatnonzero(rows["kind"] == HWLOOP)
    ends = 2 * (place.row - first - setups) + int(chip.harts["loop_end_offset"][0])
    return any(bool((rows[field][setups] == ends).any()) for field in ("imm", "imm2", "imm3"))


def _place(chip: Chip, pc: int) -> Place:
    row = (pc - int(chip.config[0]["code_base"])) >> 1
    ends = chip.harts["lp_last"] == pc
    return Place(row, pc, int(ends.any(axis=0).argmax()) if ends.any() else NONE)


def _followed(chip: Chip, index: int, begins: int, left_loop: int) -> Superblock:
    places = [_place(chip, int(chip.config[0]["code_base"]) + 2 * index)]
    last = 0  # latest issue, from the cycle in which the superblock begins
    if begins == ACCESS:
        places.append(_next_place(chip, places[-1], left_loop))
        last = int(chip.code[index]["late_load"] & chip.code[places[-1].row]["uses_load"] != 0)
    while True:
        row = chip.code[places[-1].row]
        if not _is_fit(chip, places[-1]) or len(places) > LONGEST:
            return Superblock(begins, places, False, left_loop)
        if last >= chip.config[0]["lookahead"]:
            return Superblock(begins, places, True, left_loop)
        places.append(_next_place(chip, places[-1], left_loop))
        if row["kind"] in (LOAD, STORE):
            return Superblock(begins, places, False, left_loop)
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
    if kind == BRANCH and config["ri5cy"]:  # taken, it waits for a division after it
        after = chip.code[min(place.row + int(row["size"]) // 2, int(config["rows"]) - 1)]
        return after["kind"] != UNDECODED and not after["flags"] & DIVISION
    return True


def _next_place(chip: Chip, place: Place, left_loop: int) -> Place:
    """What likely comes next; outside of the code memory, the same again, which never comes."""
    following = _place(chip, _likely_next(chip, place, left_loop))
    return following if 0 <= following.row < chip.config[0]["rows"] else place


def _cycles(chip: Chip, place: Place, following: Place) -> int:
    """The most cycles until the instruction after one can issue."""
    row, after = chip.code[place.row], chip.code[following.row]
    cycles = 4 if row["kind"] == BRANCH else 1
    if row["late_fpu"] & after["uses_fpu"]:
        cycles += int(chip.config[0]["fpu_latency"])
    return cycles


def _likely_next(chip: Chip, place: Place, left_loop: int) -> int:
    """Where an instruction most likely goes on: back in loops, else straight on."""
    row = chip.code[place.row]
    if row["flags"] & LOOP_END and place.loop != NONE and place.pc != left_loop:
        hart = chip.harts[(chip.harts["lp_last"][:, place.loop] == place.pc).argmax()]
        return int(hart["lp_start"][place.loop])
    if row["kind"] == BRANCH and row["imm"] < 0:
        return place.pc + int(row["imm"])
    return place.pc + int(row["size"])


def row_after(chip: Chip, place: Place) -> int | None:
    """The row of what follows a branch in memory, if the branch has to wait for that: see _is_fit.

    It is decoded then.
    """
    row = chip.code[place.row]
    waits = row["kind"] == BRANCH and chip.config[0]["ri5cy"]
    return place.row + int(row["size"]) // 2 if waits else None


def rows_of(chip: Chip, superblock: Superblock) -> list[int]:
    """The rows on which a superblock's machine code depends."""
    places = [place for part in superblock.parts for place in part.places]
    after = (row_after(chip, place) for part in superblock.parts for place in part.places[:-1])
    return sorted({*(place.row for place in places), *(row for row in after if row is not None)})


def content(chip: Chip, superblock: Superblock) -> bytes:
    """All that the text of a superblock depends on, besides the step functions."""
    rows = rows_of(chip, superblock)
    return chip.config.tobytes() + chip.code[rows].tobytes() + repr(superblock).encode()

"""What the runs of a program in this process have found out about its code.

How hot it is adds up over runs: many that are too short for a translation are worth one. And a run
begins with the machine code that those before it have used, as soon as the code is decoded.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from soc.chip_state import Chip
from soc.code_memory import WHOLE_ROW, CodeMemory, keep_latest
from soc.decode import BEFORE_LOOP_END, LOOP_END, LOOP_HINTS
from soc.segment_path import Segment, ways_from

BEGINNING = 1 << 13  # halfwords by which a program is known
PROGRAMS = 256
"""Programs of which something is known; the oldest make room."""


class Translation(NamedTuple):
    """A segment that is translated, or is to be.

    file       where its machine code is, or will be
    symbol     its name in there
    row        with which it begins
    begins     see Segment
    rows       of all instructions that the machine code depends on
    content    of these rows
    """

    file: Path
    symbol: str
    row: int
    begins: int
    rows: np.ndarray
    content: bytes

    def fits(self, decoded: np.ndarray) -> bool:
        """Are these rows what it was made of?"""
        return decoded[self.rows].tobytes() == self.content


def translation(chip: Chip, segment: Segment, file: Path) -> Translation:
    """What is to be known of a segment."""
    rows = np.array([place.row for way in ways_from(chip, segment) for place in way.places])
    content = chip.code.view(WHOLE_ROW)[rows].tobytes()
    return Translation(file, segment.symbol, segment.places[0].row, segment.begins, rows, content)


class Known(NamedTuple):
    """What is known of a program's code.

    rows            that were interpreted, or may end a hardware loop
    heat            [rows, 2]
    hints           [rows], of flags
    translations    in use at the end of the last run, or waited for
    """

    rows: np.ndarray
    heat: np.ndarray
    hints: np.ndarray
    translations: tuple[Translation, ...]


_known: dict[tuple[str, bytes], Known] = {}


def name_of(code: CodeMemory) -> bytes:
    """By what a program is known, from its first decoded row on. No more than a hint."""
    first = code.runs[0][0]
    begin = code.halves[first : first + BEGINNING].tobytes()
    return hashlib.sha256(code.chip.config.tobytes() + begin).digest()


def forget() -> None:
    """Know nothing of any program, as a new process."""
    _known.clear()


def recall(steps: str, program: bytes, chip: Chip) -> tuple[Translation, ...]:
    """Let a chip begin with what is known of this program under these steps; returns translations.

    That an instruction may end a hardware loop is said before the loop is set up, as whatever is
    translated relies on it.
    """
    known = _known.get((steps, program))
    if not known:
        return ()
    chip.segments["heat"][known.rows] = known.heat
    flags = chip.code["flags"]
    flags[known.rows] |= known.hints
    for before in (1, 2):  # instructions of two or of four bytes; see soc.hardware_loop
        flags[known.rows[known.hints & LOOP_END != 0] - before] |= BEFORE_LOOP_END
    return known.translations


def remember(
    steps: str, program: bytes, code: CodeMemory, translations: tuple[Translation, ...]
) -> None:
    """Know what this run has found out."""
    heats, flags = code.chip.segments["heat"], code.chip.code["flags"]
    rows = np.concatenate(
        [first + _noted(heats[first:end], flags[first:end]) for first, end in code.runs]
    )
    known = Known(rows, heats[rows], flags[rows] & LOOP_HINTS, translations)
    keep_latest(_known, (steps, program), known, PROGRAMS)


def _noted(heats: np.ndarray, flags: np.ndarray) -> np.ndarray:
    noted: np.ndarray = np.flatnonzero(heats.any(axis=1) | (flags & LOOP_HINTS != 0))
    return noted

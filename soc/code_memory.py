"""Code memory: decodes what harts come to."""

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from isa.profiles import profile
from soc.chip_state import Chip
from soc.decode import CUT_OFF, LOOP_HINTS, RowDecoder
from soc.links import drop_segments, mark_loop_end
from soc.state import ROW

LONGEST_RUN = 4096
"""Instructions decoded ahead at once, in a straight line."""

WHOLE_ROW = np.dtype((np.void, ROW.itemsize))
"""A row as bytes: copied at once, where a record is copied field by field."""


class KnownRun(NamedTuple):
    """Words decoded in a straight line, their rows, and the extensions that these are of."""

    words: bytes
    rows: np.ndarray
    extensions: set[str]


class KnownRows:
    """Decoded rows by instruction word: programs repeat their words."""

    def __init__(self, decoder: RowDecoder):
        self.decoder = decoder
        self.row = lru_cache(maxsize=1 << 16)(self._row)

    def cut_off(self, half: int) -> np.void:
        """The row of an instruction whose upper half the code memory does not have."""
        row = np.zeros(1, ROW)
        row["word"], row["kind"], row["size"] = half, CUT_OFF, 4
        return row.view(WHOLE_ROW)[0]

    def _row(self, word: int) -> tuple[np.void, str | None]:
        """The row of a word and the extension it is of; None if it is illegal: its row traps.

        Of a 16-bit instruction, the word is its 16 bits.
        """
        row = np.zeros(1, ROW)
        decoded = self.decoder.fill(row[0], word)
        return row.view(WHOLE_ROW)[0], decoded and decoded.insn.extension


@cache
def known_rows(isa: str, registers: str, small_floats: bool, fpu_latency: int) -> KnownRows:
    """The rows that all chips with these cores share; arguments as in soc.core.CoreSpec."""
    decoder = RowDecoder(
        profile(isa, registers, small_floats),
        f_registers=registers == "f",
        fpu_latency=fpu_latency,
        ri5cy=isa == "ri5cy",
    )
    return KnownRows(decoder)


class CodeMemory:
    """Fills the chip's rows on demand, and anew on fence.i.

    runs        that are decoded: first row, first row behind
    expected    runs by their first rows, of this simulation or one before: most likely the same
    """

    def __init__(self, chip: Chip, known: KnownRows):
        self.chip, self.known = chip, known
        self.base = int(chip.config[0]["code_base"])
        self.halves = chip.l2.data.cast("B").cast("H")
        self.kinds = chip.code["kind"]
        self.flags = chip.code["flags"]
        self.rows = chip.code.view(WHOLE_ROW)
        self.runs: list[tuple[int, int]] = []
        self.expected: dict[int, KnownRun] = {}

    def decode_for_waiting_harts(self) -> set[str]:
        """Decode at each hart that waits for it; returns the extensions that came up."""
        wheel = self.chip.wheel[0]
        extensions: set[str] = set()
        if wheel["stale"]:
            wheel["stale"] = 0
            extensions |= self.decode_again()
        waiting = int(wheel["resume"])
        for h in range(waiting.bit_length()):
            if waiting >> h & 1:
                extensions |= self.decode(int(self.chip.harts["pc"][h]))
        return extensions

    def decode(self, pc: int) -> set[str]:
        """Decode in a straight line from pc up to known or illegal code.

        A row may already have hints of a hardware loop that has been set up and ends there.
        """
        first = (pc - self.base) >> 1
        end, extensions = self._decode_as_before(first) or self._decode_words(first)
        self.runs.append((first, end))
        return extensions

    def _decode_as_before(self, first: int) -> tuple[int, set[str]] | None:
        """Decode what is expected from this row on, if it is the same."""
        run = self.expected.get(first)
        if not run:
            return None
        end = first + run.rows.size
        if self.halves[first:end].tobytes() != run.words:
            return None
        if not self.runs:  # all rows are empty: not to look at them spares half the page faults
            self.rows[first:end] = run.rows
            return end, run.extensions
        if self.kinds[first:end].any():
            return None
        hints = self.flags[first:end].copy()
        self.rows[first:end] = run.rows
        self.flags[first:end] |= hints
        return end, run.extensions

    def _decode_words(self, first: int) -> tuple[int, set[str]]:
        """Decode word by word; returns the first row behind, and the extensions."""
        halves, row_of = self.halves, self.known.row
        extensions: set[str] = set()
        index = first
        for _ in range(LONGEST_RUN):
            if index >= len(halves) or self.kinds[index]:
                break
            word = halves[index]
            size = 2 if word & 3 == 3 else 1
            hints = self.flags[index]
            if index + size > len(halves):
                self.rows[index], extension, size = self.known.cut_off(word), None, 1
            else:
                word |= halves[index + 1] << 16 if size == 2 else 0
                self.rows[index], extension = row_of(word)
            if hints:
                self.flags[index] |= hints
            index += size
            if extension is None:
                break
            extensions.add(extension)
        if index > first:  # else the row is known already: two harts came to it
            rows = self.rows[first:index].copy()
            rows.view(ROW)["flags"] &= np.uint8(255 - LOOP_HINTS)
            self.expected[first] = KnownRun(halves[first:index].tobytes(), rows, extensions)
        return index, extensions

    def decode_again(self) -> set[str]:
        """Decode anew all that is decoded, at once: harts may wait with accesses of these rows.

        Active hardware loops keep their ends.
        """
        runs, self.runs = self.runs, []
        drop_segments(self.chip)
        for first, end in runs:
            self.chip.code[first:end] = np.zeros(1, self.chip.code.dtype)
        extensions: set[str] = set()
        for first, _ in runs:
            extensions |= self.decode(self.base + 2 * first)
        for hart in self.chip.harts:
            for loop in range(2):
                if hart["lp_count"][loop]:
                    mark_loop_end(self.chip, hart, loop)
        return extensions

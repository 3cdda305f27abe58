"""Code memory: decodes what harts come to."""

from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from isa.profiles import profile
from soc.chip_state import Chip
from soc.decode import LOOP_HINTS, RowDecoder
from soc.links import drop_segments, mark_loop_end
from soc.state import ROW

LONGEST_RUN = 4096
"""Instructions decoded ahead at once, in a straight line."""

RUNS = 64
"""Runs that are known, of all simulations."""

WHOLE_ROW = np.dtype((np.void, ROW.itemsize))
"""A row as bytes: copied at once, where a record is copied field by field."""


def keep_latest(found: dict, key: Any, value: Any, most: int) -> None:
    """Keep a value; of more than `most`, the oldest make room. Threads may do so at once."""
    found.pop(key, None)
    found[key] = value
    for oldest in list(found)[:-most]:
        found.pop(oldest, None)


class KnownRun(NamedTuple):
    """Words decoded in a straight line, their rows, and the extensions that these are of."""

    words: bytes
    rows: np.ndarray
    extensions: set[str]


class KnownRows:
    """Decoded rows by instruction word. Programs repeat their words, and simulations programs.

    runs    the last one that was decoded from a row on
    """

    def __init__(self, decoder: RowDecoder):
        self.decoder = decoder
        self.runs: dict[int, KnownRun] = {}
        self.row = lru_cache(maxsize=1 << 16)(self._row)

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
    """Fills the chip's rows on demand, and anew on fence.i."""

    def __init__(self, chip: Chip, known: KnownRows):
        self.chip, self.known = chip, known
        self.base = int(chip.config[0]["code_base"])
        self.halves = chip.l2.data.cast("B").cast("H")
        self.kinds = chip.code["kind"]
        self.flags = chip.code["flags"]
        self.rows = chip.code.view(WHOLE_ROW)
        self.runs: list[tuple[int, int]] = []

    def decode_for_waiting_harts(self) -> set[str]:
        """Decode at each hart that waits for it; returns the extensions that came up."""
        wheel = self.chip.wheel[0]
        extensions: set[str] = set()
        if wheel["stale"]:
            wheel["stale"] = 0
            extensions |= self.decode_again()
        for h, hart in enumerate(self.chip.harts):
            if int(wheel["resume"]) >> h & 1:
                extensions |= self.decode(int(hart["pc"]))
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
        """Decode what a simulation has decoded before from the same row on, if it is the same."""
        known = self.known.runs.get(first)
        if not known:
            return None
        end = first + known.rows.size
        if self.kinds[first:end].any() or self.halves[first:end].tobytes() != known.words:
            return None
        hints = self.flags[first:end].copy()
        self.rows[first:end] = known.rows
        self.flags[first:end] |= hints
        return end, known.extensions

    def _decode_words(self, first: int) -> tuple[int, set[str]]:
        """Decode word by word; returns the first row behind, and the extensions."""
        halves, row_of = self.halves, self.known.row
        extensions: set[str] = set()
        index = first
        for _ in range(LONGEST_RUN):
            if index >= len(halves) or self.kinds[index]:
                break
            word = halves[index]
            size = 1
            if word & 3 == 3:
                word |= halves[index + 1] << 16 if index + 1 < len(halves) else 0
                size = 2
            hints = self.flags[index]
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
            run = KnownRun(halves[first:index].tobytes(), rows, extensions)
            keep_latest(self.known.runs, first, run, RUNS)
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

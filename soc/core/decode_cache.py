"""Code memory: decodes what harts come to."""

from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from isa.declare import Isa
from soc.aot.units import note_change
from soc.chip.core_spec import CoreSpec
from soc.chip.state import Chip
from soc.core.decoded_index import row_index
from soc.core.decoder import WRONG_ON_RTL, RowDecoder
from soc.prelude.decoded import BRANCH, CUT_OFF, JALR, JUMP, LOAD, LOOP_HINTS, STORE, UNDECODED
from soc.prelude.records import ROW
from soc.prelude.wheel import WRITES

LONGEST_RUN, SHORTEST_RUN = 4096, 16
"""Instructions decoded ahead at once, in a straight line: the most, and after many jumps."""
RUNS = 8
"""Runs after which one has half the length: what is jumped to so often may be data."""

KEPT = 1 << 15
"""Rows of which it is kept how they are decoded, for the next run and other processes."""

BLOCK = 1 << 10
"""Rows of which it is noted together that some are decoded."""

JUMPS = (JUMP, JALR)
"""Kinds of rows after which another run begins, where one has jumped often."""

NEEDS_NEXT = (LOAD, STORE, BRANCH)
"""Kinds of rows whose instruction asks for what follows it in memory before that can issue."""

REMEMBERED = ("count", "runs", "kept", "blocks", "wrong")

WHOLE_ROW = np.dtype((np.void, ROW.itemsize))
"""A row as bytes: copied at once, where a record is copied field by field."""


class KnownRun(NamedTuple):
    """Words decoded in a straight line.

    longest       it could have had so many instructions
    is_cut        it ends where rows were decoded already
    rows          of these words
    extensions    that they are of
    """

    words: bytes
    longest: int
    is_cut: bool
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
        row, decoded = self.decoder.row(word)
        return np.frombuffer(row, WHOLE_ROW)[0], decoded and decoded.insn.extension


@cache
def known_rows(isa: Isa, registers: str, core: CoreSpec) -> KnownRows:
    """The rows that all chips with these cores share; registers: where floats live, "f" or "x"."""
    decoder = RowDecoder(
        isa,
        f_registers=registers == "f",
        fpu_latency=core.fpu_latency,
        ri5cy=core.isa == "ri5cy",
        divides=core.divider != "none",
        apu_wop=core.rtl_wop,
    )
    return KnownRows(decoder)


class CodeMemory:
    """Fills the chip's rows on demand, and anew on fence.i.

    count       runs that are decoded
    runs        the first of them, as many as are kept: first row, end
    kept        rows of these
    blocks      numbers of the blocks of rows in which some are decoded
    expected    runs by their first rows, of this simulation or one before: most likely the same
    wrong       rows of instructions that RI5CY's RTL computes wrong: is a warning out for each?
    """

    def __init__(self, chip: Chip, known: KnownRows):
        self.chip, self.known = chip, known
        self.base = int(chip.config[0]["code_base"])
        self.halves = chip.l2.data.cast("B").cast("H")
        self.kinds, self.flags = chip.code["kind"], chip.code["flags"]
        self.words, self.checks = chip.code["word"], chip.code["checks"]
        self.rows = chip.code.view(WHOLE_ROW)
        self.first_row, self.end_row = (
            chip.wheel[name].data for name in ("decoded_first", "decoded_end")
        )
        self.fence, self.writes = (chip.wheel[name].data for name in ("fence", "writes"))
        self.resume, self.pcs = chip.wheel["resume"].data, chip.harts["pc"].data
        self.foreseen, self.id_valid = (chip.harts[name].data for name in ("foreseen", "id_valid"))
        self.written, self.last = chip.wheel["written"][0], chip.harts["last"].data
        self.runs: list[tuple[int, int]] = []
        self.count = self.kept = 0
        self.blocks: set[int] = set()
        self.expected: dict[int, KnownRun] = {}
        self.wrong: dict[int, bool] = {}

    def remembered(self) -> dict[str, Any]:
        """What it remembers of what is decoded, as plain data."""
        return {name: getattr(self, name) for name in REMEMBERED}

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Rows among which all decoded ones are: first, end; few and apart."""
        found: list[tuple[int, int]] = []
        for block in sorted(self.blocks):
            first, end = block * BLOCK, min((block + 1) * BLOCK, len(self.halves))
            if found and found[-1][1] == first:
                first = found.pop()[0]
            found.append((first, end))
        return found

    def decode_for_waiting_harts(self) -> set[str]:
        """Decode at each hart that waits for it; returns the extensions that came up."""
        waiting = self.resume[0]
        extensions: set[str] = set()
        for h in range(waiting.bit_length()):
            if waiting >> h & 1:
                extensions |= self.decode(self.pcs[h])
        return extensions

    def decode(self, pc: int) -> set[str]:
        """Decode in a straight line from pc up to known or illegal code; nothing outside of L2.

        A row may already have hints of a hardware loop that has been set up and ends there.
        """
        first = int(row_index.function(self.chip.config[0], pc))
        if not 0 <= first < len(self.halves) or self.kinds[first]:
            return set()  # two harts may have come to it
        longest = max(LONGEST_RUN >> self.count // RUNS, min(LONGEST_RUN, SHORTEST_RUN))
        run = self._decode_as_before(first, longest) or self._decode_words(first, longest)
        end = first + len(run.words) // 2
        self.count += 1
        self.first_row[0] = min(self.first_row[0], first) if self.end_row[0] else first
        self.end_row[0] = max(self.end_row[0], end)
        self._note_wrong(first, end)
        self.blocks.update(range(first // BLOCK, (end - 1) // BLOCK + 1))
        if self.kept + end - first <= KEPT:
            self.kept += end - first
            self.runs.append((first, end))
            self.expected[first] = run
        return run.extensions

    def _note_wrong(self, first: int, end: int) -> None:
        (marked,) = (self.checks[first:end] & WRONG_ON_RTL).nonzero()
        for row in marked.tolist():
            self.wrong.setdefault(first + row, False)

    def _decode_as_before(self, first: int, longest: int) -> KnownRun | None:
        """Decode what is expected from this row on, if that is what is to be decoded now."""
        run = self.expected.get(first)
        if not run or run.longest != longest:
            return None
        end = first + run.rows.size
        if self.halves[first:end].tobytes() != run.words or run.is_cut and not self.kinds[end]:
            return None
        if not self.count:  # all rows are empty: not to look at them spares half the page faults
            self.rows[first:end] = run.rows
            return run
        if self.kinds[first:end].any():
            return None
        hints = self.flags[first:end].copy()
        self.rows[first:end] = run.rows
        self.flags[first:end] |= hints
        return run

    def _decode_words(self, first: int, longest: int) -> KnownRun:
        """Decode word by word."""
        halves, kinds = self.halves, self.kinds
        extensions: set[str] = set()
        extension: str | None = None
        index, size, left = first, 1, longest
        while index < len(halves) and not kinds[index]:
            if left <= 0 and (kinds[index - size] not in NEEDS_NEXT or left <= -LONGEST_RUN):
                break
            size, extension = self._decode_row(index)
            left = 0 if longest < LONGEST_RUN and kinds[index] in JUMPS else left - 1
            index += size
            if extension is None:
                break
            extensions.add(extension)
        is_cut = extension is not None and index < len(halves) and bool(kinds[index])
        rows = self.rows[first:index].copy()
        rows.view(ROW)["flags"] &= np.uint8(255 - LOOP_HINTS)
        return KnownRun(halves[first:index].tobytes(), longest, is_cut, rows, extensions)

    def _decode_row(self, index: int) -> tuple[int, str | None]:
        """Decode one instruction; returns its half-words and its extension, None if illegal."""
        hints = self.flags[index] & LOOP_HINTS
        word = self.halves[index]
        size = 2 if word & 3 == 3 else 1
        if index + size > len(self.halves):
            self.rows[index], extension, size = self.known.cut_off(word), None, 1
        else:
            word |= self.halves[index + 1] << 16 if size == 2 else 0
            self.rows[index], extension = self.known.row(word)
        if hints:
            self.flags[index] |= hints
        return size, extension

    def is_foreseen_wrong(self) -> bool:
        """Does a hart stand at an instruction that was decoded as longer or shorter than foreseen?

        Then memory has changed since the hart, which was ahead, looked at where it jumps to.
        """
        for pc, foreseen, id_valid in zip(self.pcs, self.foreseen, self.id_valid, strict=True):
            if foreseen and foreseen & ~1 == pc and not id_valid:
                row = int(row_index.function(self.chip.config[0], pc))
                is_long = self.chip.code[row]["size"] == 4
                if self.kinds[row] != UNDECODED and is_long != foreseen & 1:
                    return True
        return False

    def changes(self) -> list[int]:
        """Rows that are no longer what memory holds, if a fence.i has asked for them."""
        if not self.fence[0]:
            return []
        writes, self.fence[0], self.writes[0] = self.writes[0], 0, 0
        if writes > WRITES:
            return self._changed_anywhere()
        words = sorted(set(self.written[:writes].tolist()))
        rows = (row for word in words for row in (2 * word - 1, 2 * word, 2 * word + 1))
        return [row for row in rows if row >= 0 and self._has_changed(row)]

    def _has_changed(self, row: int) -> bool:
        """Is a row decoded, and no longer what memory holds?"""
        if self.kinds[row] == UNDECODED:
            return False
        word = self.halves[row]
        if word & 3 == 3 and row + 1 < len(self.halves):
            word |= self.halves[row + 1] << 16
        return bool(self.words[row] != word)

    def _changed_anywhere(self) -> list[int]:
        """All rows that have changed."""
        rows = np.concatenate([np.arange(*span) for span in self.spans])
        rows = rows[self.kinds[rows] != UNDECODED]
        halves = self.chip.l2.view(np.uint16)
        low = halves[rows].astype(np.uint32)
        high = halves[np.minimum(rows + 1, halves.size - 1)].astype(np.uint32)
        high[(low & 3 != 3) | (rows + 1 == halves.size)] = 0
        found: list[int] = rows[self.words[rows] != low | high << 16].tolist()
        return found

    def decode_again(self, rows: list[int]) -> set[str]:
        """Decode instructions anew; an access under way keeps what it was issued with.

        NOTE: another hart's next instruction becomes the new one even if it is in ID, where the
        hardware keeps the old one: docs/timing-rules.md, code that changes. Active hardware loops
        keep their ends.
        """
        extensions: set[str] = set()
        for row in rows:
            self._keep_for_accesses(row)
            note_change(self.chip, row, row + 1)
            size, extension = self._decode_row(row)
            if self.checks[row] & WRONG_ON_RTL:
                self.wrong.setdefault(row, False)
            if extension:
                extensions.add(extension)
            if self.kinds[row] in NEEDS_NEXT:
                extensions |= self.decode(self.base + 2 * (row + size))
        return extensions

    def _keep_for_accesses(self, row: int) -> None:
        """Let harts that have issued the instruction of a row last have a copy of it."""
        harts = self.chip.harts
        for h, last in enumerate(self.last):
            if last != row:
                continue
            own = len(self.halves) + h
            self.rows[own] = self.rows[row]
            self.chip.code[own]["imm3"] = row
            if harts[h]["row"] == row:
                harts[h]["row"] = own
            harts[h]["last"] = own

"""Profiles of programs: what their runs have found out about the code.

How often it is interpreted adds up over runs: many that are too short for a translation are worth
one. And a run begins with the extensions that those before it have come to, and with the machine
code that they have used, as soon as the code is decoded.
"""

import json
import zlib
from base64 import b64decode, b64encode
from pathlib import Path
from typing import NamedTuple

import numpy as np

from soc.chip.state import Chip, zeros
from soc.core.decode_cache import WHOLE_ROW, CodeMemory, KnownRun
from soc.jit.translation import Batch, Translation
from soc.prelude.decoded import LOOP_HINTS
from soc.prelude.records import ROW

FASTEST = 1
"""Compression of decoded rows: they repeat, and the fastest makes them a tenth."""


def _text(content: bytes) -> str:
    return b64encode(zlib.compress(content, FASTEST)).decode()


def _content(text: str) -> bytes:
    return zlib.decompress(b64decode(text))


class Profile(NamedTuple):
    """What the runs of a program have found out about its code.

    steps           content of what superblocks consist of, see unit_cache.key
    extensions      that the program has come to
    rows, counts    that were interpreted, and how often: [rows], [rows, 2]
    hinted          rows with hints of hardware loops, and these: [rows] each
    translations    in use at the end of the last run, or waited for
    runs            decoded, by the row from which on they are
    batch           the translations, once a run has begun with them, and while they are the same
    """

    steps: str
    extensions: frozenset[str]
    rows: np.ndarray
    counts: np.ndarray
    hinted: np.ndarray
    hints: np.ndarray
    translations: tuple[Translation, ...]
    runs: dict[int, KnownRun]
    batch: Batch | None = None

    def to_bytes(self) -> bytes:
        """The content of its file."""
        made = [
            [each.file.name, each.symbol, each.row, each.begins, each.rows.tolist(), each.digest]
            for each in self.translations
        ]
        arrays = [array.tolist() for array in (self.rows, self.counts, self.hinted, self.hints)]
        runs = [
            [
                *(first, _text(run.words), run.longest, run.is_cut),
                *(_text(run.rows.tobytes()), sorted(run.extensions)),
            ]
            for first, run in self.runs.items()
        ]
        return json.dumps([self.steps, sorted(self.extensions), arrays, made, runs]).encode()

    @classmethod
    def from_bytes(cls, content: bytes, folder: Path) -> "Profile":
        """The profile in a file; the machine code is in this folder."""
        steps, extensions, (rows, counts, hinted, hints), made, runs = json.loads(content)
        return cls(
            steps,
            frozenset(extensions),
            np.array(rows, np.int64),
            np.array(counts, np.int64).reshape(-1, 2),
            np.array(hinted, np.int64),
            np.array(hints, np.uint8),
            tuple(
                Translation(folder / name, symbol, row, begins, np.array(places), digest)
                for name, symbol, row, begins, places, digest in made
            ),
            {
                first: KnownRun(
                    *(_content(words), longest, is_cut),
                    *(np.frombuffer(_content(rows), WHOLE_ROW), set(extensions)),
                )
                for first, words, longest, is_cut, rows, extensions in runs
            },
        )

    def apply(self, chip: Chip) -> None:
        """Let a chip begin with it.

        That an instruction may end a hardware loop is said before the loop is set up, as whatever
        is translated relies on it.
        """
        chip.superblocks["hotness"][self.rows] = self.counts
        chip.code["flags"][self.hinted] |= self.hints

    def decoded_at_first(self) -> np.ndarray:
        """Rows as a run finds them that has decoded the first of this code and got the hints."""
        if not self.runs:
            return np.zeros(0, WHOLE_ROW)
        first, run = next(iter(self.runs.items()))
        rows = zeros(first + run.rows.size, ROW)
        decoded: np.ndarray = rows.view(WHOLE_ROW)
        decoded[first:] = run.rows
        is_there = self.hinted < rows.size
        rows["flags"][self.hinted[is_there]] |= self.hints[is_there]
        return decoded


def profile_of(
    steps: str,
    extensions: frozenset[str],
    code: CodeMemory,
    translations: tuple[Translation, ...],
    batch: Batch | None,
) -> Profile:
    """The profile of a program at the end of a run: see Profile."""
    counts, flags = code.chip.superblocks["hotness"], code.chip.code["flags"]
    rows, hinted = _interpreted(code, counts), _hinted(code, flags)
    runs = {first: code.expected[first] for first, _ in code.runs if first in code.expected}
    return Profile(
        steps,
        extensions,
        *(rows, counts[rows]),
        *(hinted, flags[hinted] & LOOP_HINTS),
        translations,
        runs,
        batch,
    )


def _interpreted(code: CodeMemory, counts: np.ndarray) -> np.ndarray:
    return np.concatenate(
        [first + np.flatnonzero(counts[first:end].any(axis=1)) for first, end in code.spans]
    )


def _hinted(code: CodeMemory, flags: np.ndarray) -> np.ndarray:
    """Rows with hints, the two before a run too: a loop may end with the first of the run."""
    windows = [(max(first - 2, 0), end) for first, end in code.spans]
    return np.concatenate(
        [first + np.flatnonzero(flags[first:end] & LOOP_HINTS) for first, end in windows]
    )

"""What the runs of a program have found out about its code.

How hot it is adds up over runs: many that are too short for a translation are worth one. And a run
begins with the extensions that those before it have come to, and with the machine code that they
have used, as soon as the code is decoded. What is worth it is kept for other processes, too.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from soc.cache_folder import cache_folder
from soc.chip_state import Chip, zeros
from soc.code_memory import WHOLE_ROW, CodeMemory, KnownRun
from soc.decode import LOOP_HINTS
from soc.kept_files import keep, kept
from soc.state import ROW
from soc.translated import Together, Translation, digest, file_names

BEGINNING = 1 << 13  # halfwords by which a program is known
PROGRAMS = 256
"""Programs of which something is known; the oldest make room."""

KEPT = 1024
"""Programs of which it is kept for other processes; 0: none."""

WARM = 1 << 12
"""Interpretations of a segment after which it is looked up; a power of two."""

WORTH_KEEPING = 1 << 15  # interpretations of a row
FORMAT = 3  # of what is kept


def keep_latest(found: dict, key: Any, value: Any, most: int) -> None:
    """Keep a value; of more than `most`, the oldest make room. Threads may do so at once."""
    found.pop(key, None)
    found[key] = value
    for oldest in list(found)[:-most]:
        found.pop(oldest, None)


def _text(content: bytes) -> str:
    return b64encode(content).decode()


class Worth(NamedTuple):
    """Why it is worth to keep what is known, again: other translations, or looks at what is hot.

    files       of machine code
    doublings   how often the heat of rows has doubled beyond what is warm: each time, one looks
    """

    files: frozenset[str]
    doublings: int


class Known(NamedTuple):
    """What is known of a program's code.

    steps           content of what segments consist of, see unit_cache.key
    extensions      that the program has come to
    rows            that were interpreted, with their heat: [rows], [rows, 2]
    hinted          rows with hints of hardware loops, and these: [rows] each
    translations    in use at the end of the last run, or waited for
    runs            decoded, by the row from which on they are
    together        the translations, once a run has begun with them, and while they are the same
    """

    steps: str
    extensions: frozenset[str]
    rows: np.ndarray
    heat: np.ndarray
    hinted: np.ndarray
    hints: np.ndarray
    translations: tuple[Translation, ...]
    runs: dict[int, KnownRun]
    together: Together | None = None

    def to_bytes(self) -> bytes:
        """To be kept."""
        made = [
            [each.file.name, each.symbol, each.row, each.begins, each.rows.tolist(), each.digest]
            for each in self.translations
        ]
        arrays = [array.tolist() for array in (self.rows, self.heat, self.hinted, self.hints)]
        runs = [
            [
                *(first, _text(run.words), run.longest, run.is_cut),
                *(_text(run.rows.tobytes()), sorted(run.extensions)),
            ]
            for first, run in self.runs.items()
        ]
        return json.dumps([self.steps, sorted(self.extensions), arrays, made, runs]).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Known":
        """What was kept."""
        steps, extensions, (rows, heat, hinted, hints), made, runs = json.loads(content)
        folder = cache_folder()
        return cls(
            steps,
            frozenset(extensions),
            np.array(rows, np.int64),
            np.array(heat, np.int64).reshape(-1, 2),
            np.array(hinted, np.int64),
            np.array(hints, np.uint8),
            tuple(
                Translation(folder / name, symbol, row, begins, np.array(places), digest)
                for name, symbol, row, begins, places, digest in made
            ),
            {
                first: KnownRun(
                    *(b64decode(words), longest, is_cut),
                    *(np.frombuffer(b64decode(rows), WHOLE_ROW), set(extensions)),
                )
                for first, words, longest, is_cut, rows, extensions in runs
            },
        )

    @property
    def worth(self) -> Worth:
        """Why to keep it."""
        files = self.together.files if self.together else file_names(self.translations)
        is_hot = self.heat.max(initial=0) >= WORTH_KEEPING
        warm = self.heat[self.heat >= WARM] // WARM if is_hot else np.ones(0)
        return Worth(files, int(np.frexp(warm)[1].sum()))


Name = tuple[str, bytes]
"""By what a program is known: the kind of steps, and name_of the program."""

_known: dict[Name, Known] = {}
_kept: dict[Name, Worth] = {}
"""What it was worth when it was kept."""


def name_of(code: CodeMemory, first: int) -> bytes:
    """By what a program is known that begins with this row. No more than a hint."""
    return _name(code.chip.config.tobytes() + code.halves[first : first + BEGINNING].tobytes())


@lru_cache(maxsize=PROGRAMS)
def _name(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def forget() -> None:
    """Know nothing of any program, as a new process."""
    _known.clear()
    _kept.clear()


def recall(name: Name) -> Known | None:
    """What is known of a program: by this process, or else by others before it."""
    if name not in _known and KEPT:
        content = kept(_file(name))
        if content is not None:
            known = Known.from_bytes(content)
            keep_latest(_known, name, known, PROGRAMS)
            keep_latest(_kept, name, known.worth, PROGRAMS)
    return _known.get(name)


def _file(name: Name) -> Path:
    kind, program = name
    return cache_folder() / f"known-{digest(f'{FORMAT} {kind} '.encode() + program)[:32]}"


def take_up(known: Known, chip: Chip) -> None:
    """Let a chip begin with what is known.

    That an instruction may end a hardware loop is said before the loop is set up, as whatever is
    translated relies on it.
    """
    chip.segments["heat"][known.rows] = known.heat
    chip.code["flags"][known.hinted] |= known.hints


def decoded_at_first(known: Known) -> np.ndarray:
    """Rows as a run finds them that has decoded the first of this code and taken up the hints."""
    if not known.runs:
        return np.zeros(0, WHOLE_ROW)
    first, run = next(iter(known.runs.items()))
    rows = zeros(first + run.rows.size, ROW)
    decoded: np.ndarray = rows.view(WHOLE_ROW)
    decoded[first:] = run.rows
    is_there = known.hinted < rows.size
    rows["flags"][known.hinted[is_there]] |= known.hints[is_there]
    return decoded


def remember(
    name: Name,
    steps: str,
    extensions: frozenset[str],
    code: CodeMemory,
    translations: tuple[Translation, ...],
    together: Together | None,
) -> None:
    """Know what this run has found out."""
    heats, flags = code.chip.segments["heat"], code.chip.code["flags"]
    rows, hinted = _interpreted(code, heats), _hinted(code, flags)
    hints = flags[hinted] & LOOP_HINTS
    known = Known(
        steps,
        extensions,
        *(rows, heats[rows]),
        *(hinted, hints),
        translations,
        {first: code.expected[first] for first, _ in code.runs if first in code.expected},
        together,
    )
    keep_latest(_known, name, known, PROGRAMS)
    if KEPT and _is_news(known.worth, _kept.get(name, Worth(frozenset(), 0))):
        with suppress(OSError):
            keep(_file(name), known.to_bytes(), KEPT)
        keep_latest(_kept, name, known.worth, PROGRAMS)


def _is_news(worth: Worth, before: Worth) -> bool:
    return worth.files != before.files or worth.doublings > before.doublings


def _interpreted(code: CodeMemory, heats: np.ndarray) -> np.ndarray:
    return np.concatenate(
        [first + np.flatnonzero(heats[first:end].any(axis=1)) for first, end in code.spans]
    )


def _hinted(code: CodeMemory, flags: np.ndarray) -> np.ndarray:
    """Rows with hints, the two before a run too: a loop may end with the first of the run."""
    windows = [(max(first - 2, 0), end) for first, end in code.spans]
    return np.concatenate(
        [first + np.flatnonzero(flags[first:end] & LOOP_HINTS) for first, end in windows]
    )

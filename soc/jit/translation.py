"""Translations of superblocks: where their machine code is, or will be, and what it is made of."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from soc.chip.state import Chip
from soc.core.decode_cache import WHOLE_ROW
from soc.jit.superblock import Superblock, rows_of


class Translation(NamedTuple):
    """A superblock that is translated, or is to be.

    file       where its machine code is, or will be
    symbol     its name in there
    row        with which it begins
    begins     see Superblock
    rows       of all instructions that the machine code depends on
    digest     of what is in these rows
    """

    file: Path
    symbol: str
    row: int
    begins: int
    rows: np.ndarray
    digest: str


class Batch(NamedTuple):
    """Translations that are installed at once, where they fit the code.

    made        these; `others` wait until they are there, or fit
    rows        with which they begin, and `begins`, see Superblock
    codes       addresses of their machine code
    parts       rows of all instructions that it depends on
    content     of these rows
    files       names of all files of machine code
    until       when to look again whether others are there, see time.monotonic
    """

    made: tuple[Translation, ...]
    others: tuple[Translation, ...]
    rows: np.ndarray
    begins: np.ndarray
    codes: np.ndarray
    parts: np.ndarray
    content: bytes
    files: frozenset[str]
    until: float

    @classmethod
    def of(
        cls,
        made: list[Translation],
        others: list[Translation],
        codes: list[int],
        decoded: np.ndarray,
        until: float,
    ) -> "Batch":
        """Translations with the addresses of their machine code, and all rows as they fit them."""
        rows = np.array([each.row for each in made], np.int64)
        begins = np.array([each.begins for each in made], np.int64)
        none = np.zeros(0, np.int64)
        parts = np.unique(np.concatenate([none, *(each.rows for each in made)]))
        return cls(
            tuple(made),
            tuple(others),
            *(rows, begins, np.array(codes, np.uint64)),
            *(parts, decoded[parts].tobytes()),
            file_names([*made, *others]),
            until,
        )

    def fits(self, decoded: np.ndarray) -> bool:
        """Are the rows what all of these were made of?"""
        return bool(decoded[self.parts].tobytes() == self.content)


def translation(chip: Chip, superblock: Superblock, file: Path) -> Translation:
    """What is to be known of a superblock."""
    rows = np.array(rows_of(chip, superblock))
    of_rows = digest(chip.code.view(WHOLE_ROW)[rows].tobytes())
    return Translation(
        file, superblock.symbol, superblock.places[0].row, superblock.begins, rows, of_rows
    )


def file_names(translations: Iterable[Translation]) -> frozenset[str]:
    """Of their machine code."""
    return frozenset(each.file.name for each in translations)


def digest(content: bytes) -> str:
    """A name for it."""
    return hashlib.sha256(content).hexdigest()

"""Machine code of superblocks in this process: is it there, where is it loaded, what of it fits."""

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from soc.aot.cache_file import kept
from soc.aot.loader import load_objects
from soc.aot.unit import LOADING
from soc.jit.translation import Batch, Translation, digest
from soc.prelude.records import SUPERBLOCKS

MACHINE_CODE = "superblock-"
"""What the names of files of machine code begin with."""

ABSENT = 0.1
"""Seconds for which a file that was not there is not looked for again, at least."""
MOST_LOOKS = 50
"""How much longer than it takes to list the folder that is, at least."""


class LoadedCode:
    """Machine code that has been loaded, for all simulations of a code cache.

    It stays in memory: simulations do not say how long they use it.

    addresses    by its file; 0 if LLVM cannot translate it
    listed       names of all files, at the last look
    next_look    for others, see time.monotonic
    fitting      by the digest of rows that fit: their content, to Python's own hash
    """

    def __init__(self) -> None:
        self.addresses: dict[Path, int] = {}
        self.listed: Collection[str] = frozenset()
        self.next_look = 0.0
        self.fitting: dict[str, int] = {}
        self.loaded: list[Any] = []

    def batch(
        self, translations: Sequence[Translation], decoded: np.ndarray, most: int = SUPERBLOCKS
    ) -> Batch:
        """Load what is there of these, and see what fits the decoded rows: `most` of them."""
        self.load(self.there(translations))
        made: list[Translation] = []
        others: list[Translation] = []
        for each in translations:
            is_usable = len(made) < most and self.addresses.get(each.file)
            (made if is_usable and self.fits(each, decoded) else others).append(each)
        codes = [self.addresses[each.file] for each in made]
        return Batch.of(made, others, codes, decoded, monotonic() + ABSENT)

    def again(self, batch: Batch) -> Batch | None:
        """A batch that others have made, if there is no more to it now."""
        if monotonic() < batch.until:
            return batch
        if self.there(batch.others):
            return None
        return batch._replace(until=monotonic() + ABSENT)

    def there(self, translations: Sequence[Translation]) -> list[Translation]:
        """Those of them that are translated. For the others the answer stands for a while.

        NOTE: a look at the disk lets other threads go on, and then waits for the interpreter lock.
        """
        if translations and monotonic() >= self.next_look:
            self._look(translations[0].file.parent)
        known, listed = self.addresses, self.listed
        return [each for each in translations if each.file in known or each.file.name in listed]

    def has_others(self, folder: Path) -> bool:
        """Is there machine code that is not loaded? This, too, stands for a while."""
        if monotonic() >= self.next_look:
            self._look(folder)
        loaded = {file.name for file in self.addresses}
        return any(name.startswith(MACHINE_CODE) and name not in loaded for name in self.listed)

    def _look(self, folder: Path) -> None:
        started = monotonic()
        with suppress(FileNotFoundError):
            self.listed = frozenset(os.listdir(folder))
        now = monotonic()
        self.next_look = now + max(ABSENT, MOST_LOOKS * (now - started))

    def look_again(self) -> None:
        """Look again for what was not there."""
        self.next_look = 0.0

    def fits(self, made: Translation, decoded: np.ndarray) -> bool:
        """Are the decoded rows what a translation was made of?

        NOTE: hashlib lets other threads go on, at each call, so it is asked once.
        """
        if made.rows.max() >= decoded.size:
            return False
        content = decoded[made.rows].tobytes()
        seen = hash(content)
        if self.fitting.get(made.digest) != seen:
            if digest(content) != made.digest:
                return False
            self.fitting[made.digest] = seen
        return True

    def load(self, translations: Iterable[Translation]) -> None:
        """Load the machine code of these as far as it is there, all of it together."""
        missing = {each.file: each for each in translations if each.file not in self.addresses}
        with LOADING if missing else nullcontext():  # LLVM's linker is for one thread at a time
            codes = {}
            for file, each in missing.items():
                code = None if file in self.addresses else kept(file)
                if code:
                    codes[each.symbol, code] = file
                elif code is not None:
                    self.addresses[file] = 0
            while codes:
                batch = {symbol: (code, file) for (symbol, code), file in codes.items()}
                self.loaded.append(load_objects(code for code, _ in batch.values()))
                for symbol, (code, file) in batch.items():
                    self.addresses[file] = int(self.loaded[-1].get_function_address(symbol))
                    del codes[symbol, code]

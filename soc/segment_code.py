"""The machine code of segments: is it there, where is it loaded, and what of it fits a program."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from soc.kept_files import kept
from soc.known_code import Known, decoded_at_first
from soc.linking import LOADING
from soc.machine_code import load_objects
from soc.state import SEGMENTS
from soc.translated import Together, Translation

ABSENT = 0.1
"""Seconds for which one does not look again for what was not there."""


def together(
    translations: Sequence[Translation], decoded: np.ndarray, most: int = SEGMENTS
) -> Together:
    """Load what is there of these, and see what fits the decoded rows: `most` of them, or fewer."""
    load(filter(is_there, translations))
    made: list[Translation] = []
    others: list[Translation] = []
    for each in translations:
        is_usable = len(made) < most and _addresses.get(each.file)  # 0: LLVM could not translate it
        (made if is_usable and each.fits(decoded) else others).append(each)
    codes = [_addresses[each.file] for each in made]
    return Together.of(made, others, codes, decoded, monotonic() + ABSENT)


def together_known(known: Known) -> Together:
    """What of a program's machine code fits the code that its runs have decoded at first."""
    before = known.together
    if before and monotonic() < before.until:
        return before
    if before and not any(map(is_there, before.others)):
        return before._replace(until=monotonic() + ABSENT)
    return together(known.translations, decoded_at_first(known))


def is_there(made: Translation) -> bool:
    """Is it translated? Whoever was told that it is not is told so again for a while.

    NOTE: a look at the disk lets other threads go on, and then waits for the interpreter lock.
    """
    if made.file in _addresses:
        return True
    now = monotonic()
    if now < _absent_until.get(made.file, 0.0):
        return False
    if made.file.exists():
        return True
    _absent_until[made.file] = now + ABSENT
    return False


def has_come() -> None:
    """Look again for what was not there."""
    _absent_until.clear()


def load(translations: Iterable[Translation]) -> None:
    """Load the machine code of these as far as it is there, all of it together."""
    missing = {each.file: each for each in translations if each.file not in _addresses}
    with LOADING if missing else nullcontext():  # LLVM's linker is for one thread at a time
        codes = {}
        for file, each in missing.items():
            code = None if file in _addresses else kept(file)
            if code:
                codes[each.symbol, code] = file
            elif code is not None:
                _addresses[file] = 0
        while codes:
            batch = {symbol: (code, file) for (symbol, code), file in codes.items()}
            _loaded.append(load_objects(code for code, _ in batch.values()))
            for symbol, (code, file) in batch.items():
                _addresses[file] = int(_loaded[-1].get_function_address(symbol))
                del codes[symbol, code]


_absent_until: dict[Path, float] = {}
"""Files of machine code that were not there."""

_addresses: dict[Path, int] = {}
"""Of the machine code in files; 0 if LLVM cannot translate it. All simulations share it."""

_loaded: list[Any] = []
"""Machine code stays in memory: nobody knows how long it is in use."""

"""The version of sources: what was worked out by them holds as long as it is the same."""

import hashlib
from functools import cache
from pathlib import Path

from soc.host.compile_process import ROOT

FOLDERS = ("isa", "soc", "firmware", "trainlib")
"""Of the sources that decide what a program is and how long it takes."""


@cache
def version_of(places: tuple[str, ...], root: Path = ROOT) -> str:
    """A digest of all that is written in these folders and files.

    places    relative to the root: "soc", "autotuner/measure.py"
    """
    digest = hashlib.sha256()
    for place in places:
        whole = root / place
        for file in sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]:
            digest.update(file.relative_to(root).as_posix().encode() + b"\0")
            digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()

"""Archives of measured programs: `measured.json`, and the ELF files that were run."""

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any


@cache
def measured_in(archive: Path) -> dict[str, Any]:
    """The content of an archive's measured.json."""
    with tarfile.open(archive) as members:
        file = members.extractfile("measured.json")
        assert file is not None
        return json.load(file)


@cache
def elfs_in(archive: Path) -> dict[str, bytes]:
    """The ELF files of an archive, by their names in it."""
    with tarfile.open(archive) as members:
        return {
            member.name: file.read()
            for member in members
            if member.name.endswith(".elf") and (file := members.extractfile(member))
        }

"""Programs that the tests of this folder read: made by GNU tools, not by this project."""

import tarfile
from pathlib import Path

import pytest

from pulpsim.fidelity.programs import PROGRAMS

ARCHIVES = (Path(__file__).parents[1] / "oracles" / "elfs.tar.xz", PROGRAMS)
KINDS = ("pulp_open", "cv32e40p")


@pytest.fixture(scope="session")
def elfs() -> dict[str, bytes]:
    """Contents by name, "cv32e40p/alu.elf": by GNU as and gcc 12, for RTL and for GVSoC."""
    contents = {}
    for file in ARCHIVES:
        with tarfile.open(file) as archive:
            for member in archive:
                if member.name.startswith(KINDS):
                    contents[member.name] = archive.extractfile(member).read()
    return contents


@pytest.fixture(scope="session")
def hello(elfs: dict[str, bytes]) -> bytes:
    """A small program of one segment, for Zfinx, with symbols and attributes."""
    return elfs["pulp_open/hello.elf"]

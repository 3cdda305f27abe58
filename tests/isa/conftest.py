"""Programs that the tests of this folder read: made by GNU tools, not by this project."""

import tarfile
from pathlib import Path

import pytest

ELFS = Path(__file__).parents[1] / "oracles" / "elfs.tar.xz"


@pytest.fixture(scope="session")
def elfs() -> dict[str, bytes]:
    """Contents by name, "rtl/elf/alu.elf": by GNU as and gcc 12, for RTL and for GVSoC."""
    with tarfile.open(ELFS) as archive:
        members = [member for member in archive if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in members}


@pytest.fixture(scope="session")
def hello(elfs: dict[str, bytes]) -> bytes:
    """A small program of one segment, for Zfinx, with symbols and attributes."""
    return elfs["pulp_open/hello.elf"]

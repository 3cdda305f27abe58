"""Files in the cache folder: whole, unchanged, the user's own, and not too many."""

import hashlib
import os
from pathlib import Path

import pytest

from soc.aot.cache_file import keep, kept


def test_what_is_kept_is_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "superblock-1"
    keep(file, b"machine code", 9)

    assert kept(file) == b"machine code"
    assert [path.name for path in tmp_path.iterdir()] == ["superblock-1"]


def test_of_a_file_that_is_not_there_nothing_is_kept(tmp_path: Path) -> None:
    assert kept(tmp_path / "superblock-1") is None
    assert kept(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        hashlib.sha256(b"machine code").digest() + b"machine c0de",
        hashlib.sha256(b"machine code").digest()[:7],
    ],
)
def test_a_file_that_was_changed_is_deleted(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "superblock-1"
    file.write_bytes(content)
    file.chmod(0o600)

    assert kept(file) is None
    assert not file.exists()


def test_a_file_that_others_can_write_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "superblock-1"
    keep(file, b"machine code", 9)
    file.chmod(0o666)

    assert kept(file) is None


def test_the_oldest_of_a_kind_make_room(tmp_path: Path) -> None:
    keep(tmp_path / "profile-0", b"", 2)
    for number in range(4):
        keep(tmp_path / f"superblock-{number}", b"", 2)
        os.utime(tmp_path / f"superblock-{number}", (number, number))

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "profile-0",
        "superblock-2",
        "superblock-3",
    ]

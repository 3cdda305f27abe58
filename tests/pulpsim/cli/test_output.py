"""Files that commands write."""

import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pulpsim.cli.output import write
from soc.config.toml import ConfigError


@contextmanager
def small_files() -> Iterator[None]:
    """No files over 1,000 bytes: not even what pytest prints, so not for long."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_file_that_cannot_be_written_is_what_it_was(tmp_path: Path) -> None:
    file = tmp_path / "best.toml"
    write("-o", file, b"old")
    for place in (file, tmp_path / "new.toml"):
        message = rf"^-o {place}: cannot be written: File too large$"
        with pytest.raises(ConfigError, match=message), small_files():
            write("-o", place, b"x" * 2000)
    assert [path.name for path in tmp_path.iterdir()] == ["best.toml"]
    assert file.read_bytes() == b"old"


def test_a_file_keeps_its_mode_and_a_link_its_place(tmp_path: Path) -> None:
    file, link, plain = tmp_path / "a.json", tmp_path / "link", tmp_path / "b.json"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(file)
    write("--json", link, b"text")
    assert (link.is_symlink(), file.read_bytes()) == (True, b"text")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    write("--json", plain, b"text")
    wanted = tmp_path / "c.json"
    wanted.touch()
    assert plain.stat().st_mode == wanted.stat().st_mode


def test_a_device_is_written_as_it_is() -> None:
    write("--json", Path("/dev/null"), b"text")
    with pytest.raises(
        ConfigError, match=r"^-o /dev/full: cannot be written: No space left on device$"
    ):
        write("-o", Path("/dev/full"), b"text")


def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    file = tmp_path / "no" / "a.json"
    with pytest.raises(
        ConfigError, match=rf"^--json {file}: cannot be written: No such file or directory$"
    ):
        write("--json", file, b"text")

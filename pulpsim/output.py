"""Files that commands write: refused early where they cannot be, and errors in one sentence."""

import os
from pathlib import Path
from shutil import copymode

from soc.toml_file import ConfigError


def check_writable(option: str, file: Path, *sources: Path | None) -> None:
    """Refuse a place before the work, not after it.

    option     as messages name it: "--json"
    sources    what is read, and must not be replaced
    raises     ConfigError
    """
    if file.exists() and any(s and s.exists() and file.samefile(s) for s in sources):
        raise ConfigError([f"{option} {file}: is what is read; name another file"])
    if file.is_dir():
        raise ConfigError([f"{option} {file}: is a folder, not a file"])
    if not file.parent.is_dir():
        raise ConfigError([f"{option} {file}: there is no folder {file.parent}"])
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ConfigError([f"{option} {file}: may not be written"])


def write(option: str, file: Path, data: bytes) -> None:
    """Write a file. Where that fails, what was there before stays.

    raises    ConfigError, with the system's reason
    """
    try:
        if file.exists() and not (file.is_file() and os.access(file.resolve().parent, os.W_OK)):
            file.write_bytes(data)  # a device, or nothing may be put beside it
        else:
            _replace(file.resolve(), data)
    except OSError as error:
        raise ConfigError([f"{option} {file}: cannot be written: {error.strerror}"]) from None


def _replace(file: Path, data: bytes) -> None:
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_bytes(data)
        if file.exists():
            copymode(file, part)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)

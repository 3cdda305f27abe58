"""Files that commands write: refused early where they cannot be, and errors in one sentence."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copymode
from typing import Any, BinaryIO

from soc.config.toml import ConfigError
from soc.host.temporary import replaced

PART = ".pulpsim-part-"
"""How names begin of files that are not written to the end."""


def check_writable(option: str, file: Path, *sources: Path | None) -> None:
    """Refuse a place before the work, not after it.

    option     as messages name it: "--json"
    sources    what is read, and must not be replaced
    raises     ConfigError
    """
    try:
        if file.exists() and any(s and s.exists() and file.samefile(s) for s in sources):
            raise ConfigError([f"{option} {file}: is what is read; name another file"])
        if file.is_dir():
            raise ConfigError([f"{option} {file}: is a folder, not a file"])
        if not file.parent.is_dir():
            raise ConfigError([f"{option} {file}: there is no folder {file.parent}"])
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise ConfigError([f"{option} {file}: may not be written"])
    except OSError as error:
        raise _refusal(option, file, error) from None


def write(option: str, file: Path, data: bytes) -> None:
    """Write a file. Where that fails, what was there before stays.

    raises    ConfigError, with the system's reason
    """
    with written(option, file) as stream:
        stream.write(data)


def write_json(result: dict[str, Any], file: Path) -> None:
    """Write a command's result as JSON, to standard output if the file is STANDARD_OUTPUT.

    raises    ConfigError, with the system's reason
    """
    text = json.dumps(result, indent=1) + "\n"
    if file == STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write("--json", file, text.encode())


@contextmanager
def written(option: str, file: Path) -> Iterator[BinaryIO]:
    """A stream whose content becomes a file's at the end, whole, or not at all.

    What is no regular file, such as a pipe or a device, is written as it comes.

    raises    ConfigError, with the system's reason
    """
    try:
        target = Path(os.path.realpath(file))  # which, unlike resolve, takes a link to itself
        is_there = file.exists()
        if is_there and not (file.is_file() and os.access(target.parent, os.W_OK)):
            with file.open("wb", buffering=1 << 20) as stream:
                yield stream
            return
        with replaced(target, PART) as stream:
            yield stream
            if is_there:
                copymode(target, stream.name)
    except BrokenPipeError:
        return  # who reads it has had enough
    except OSError as error:
        raise _refusal(option, file, error) from None


def _refusal(option: str, file: Path, error: OSError) -> ConfigError:
    return ConfigError([f"{option} {file}: cannot be written: {error.strerror}"])


STANDARD_OUTPUT = Path("-")

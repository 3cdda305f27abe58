"""The folder in which compiled code and databases are kept: the user's own, or a temporary one.

Machine code is loaded from it: it is used only if the user owns it and no one else can write to it
or put another in its place.
"""

import os
import stat
import warnings
from functools import cache
from pathlib import Path
from threading import Lock

from soc.config.toml import ConfigError
from soc.host.temporary import TemporaryFolder, remove_abandoned

VARIABLE = "PULPSIM_CACHE"
PART = "part-"
"""How names of what is being written there begin."""
TEMPORARY = "pulpsim-cache-"
"""How names of temporary folders in its place begin."""
FOREIGN = "belongs to another user"
OPEN = "can be written by others; `chmod go-w {}` ends that"


class CacheWarning(UserWarning):
    """Nothing is kept for the next process."""


def cache_folder() -> Path:
    """Return $PULPSIM_CACHE, else pulpsim in $XDG_CACHE_HOME or ~/.cache; it is made if need be.

    One that cannot be used is replaced by a temporary folder, see use_temporary_folder.
    """
    try:
        folder = chosen_folder()
    except RuntimeError:
        return use_temporary_folder("HOME is not set, and no other home folder is known")
    why = why_unusable(folder)
    return use_temporary_folder(f"{folder}: {why}") if why else folder


def chosen_folder() -> Path:
    """Where the environment says that it is.

    raises    RuntimeError if there is no home folder
    """
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pulpsim"


@cache
def why_unusable(folder: Path) -> str:
    """Why a folder cannot be used, "" if it can; one that is not there is made."""
    try:
        if folder.exists() and not folder.is_dir():
            return "is a file, not a folder"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        real = folder.resolve()
        if not is_ours(real):
            is_foreign = real.stat().st_uid != os.getuid()
            return FOREIGN if is_foreign else OPEN.format(real)
        for above in real.parents:
            if why := _why_unsafe(above):
                return f"its folder {above} {why}"
        if not os.access(folder, os.R_OK | os.X_OK):
            return "cannot be read"
    except OSError as error:
        return f"cannot be used: {error.strerror}"
    remove_abandoned(folder, PART)
    return ""


def _why_unsafe(folder: Path) -> str:
    """Why another user could put something else in the place of what is in a folder.

    Whoever owns / is the system, in a namespace of users, too.
    """
    status = folder.stat()
    if status.st_uid not in (os.getuid(), 0, Path("/").stat().st_uid):
        return FOREIGN
    is_open = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
    return OPEN.format(folder) if is_open else ""


def is_ours(path: Path) -> bool:
    """Is it a file or a folder of this user, that no one else can write to?"""
    status = path.lstat()
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return is_plain and status.st_uid == os.getuid() and not status.st_mode & 0o022


_replacing = Lock()
_temporary: list[TemporaryFolder] = []


def use_temporary_folder(why: str) -> Path:
    """Use a temporary folder from now on, which this process removes at its end; warn of it.

    The environment of this process names it, for those that it starts.

    raises    ConfigError if there can be none
    """
    with _replacing:
        if is_temporary():
            return Path(os.environ[VARIABLE])
        try:
            made = TemporaryFolder(TEMPORARY)
        except OSError as error:
            reason = f"nor can a temporary folder be made: {error.strerror}"
            raise ConfigError([f"{why}; {reason}; {VARIABLE}=FOLDER names another"]) from None
        _temporary.append(made)
        os.environ[VARIABLE] = str(made.path)
    warnings.warn(
        f"{why}; compiled code is not kept for the next run: {VARIABLE}=FOLDER names another",
        CacheWarning,
        stacklevel=2,
    )
    return made.path


def is_temporary() -> bool:
    """Is the folder one that this process removes at its end?"""
    return os.environ.get(VARIABLE) in [str(each.path) for each in _temporary]

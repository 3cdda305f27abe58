"""Temporary files and folders that end with their process, however it ends.

A process holds a lock on each of its own (flock), which the kernel releases when the process ends.
What is not held has been left by a process that was killed: the next one that makes something of
that name, in that folder, removes it.
"""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO
from weakref import finalize

NOT_LOCKABLE = -1
"""In place of a descriptor, on file systems without flock: no process removes what is there."""


class TemporaryFolder:
    """A folder of this process alone, removed with its contents at the latest when this ends.

    prefix    of its name
    parent    the system's folder for temporary files by default

    raises    OSError
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        remove_abandoned(parent, prefix)
        lock = None
        while lock is None:
            self.path = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
            lock = _held(self.path)
        self.remove = finalize(self, _remove_held, self.path, lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


@contextmanager
def replaced(file: Path, prefix: str, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A stream whose content takes a file's place at the end, whole.

    If the body fails, the file is what it was, and nothing is left beside it.

    prefix    of the name that the content has until then, in the same folder
    mode      of the file, less the process's umask

    raises    OSError
    """
    remove_abandoned(file.parent, prefix)
    lock = None
    while lock is None:
        part = file.with_name(f"{prefix}{token_hex(6)}")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        lock = _held(part)
        if lock is None:
            os.close(descriptor)
    try:
        with os.fdopen(descriptor, "wb", buffering=1 << 20) as stream:
            yield stream
        part.replace(file)
    finally:
        _remove_held(part, lock)


@cache
def remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove what killed processes of this user have left in a folder; once in each process."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        _remove_abandoned(Path(entry.path))


def _remove_abandoned(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    finally:
        os.close(lock)


def _held(path: Path) -> int | None:
    """A descriptor that holds the lock of a new file or folder; None if that has been removed.

    Another process may take it for abandoned before the lock is held.
    """
    try:
        lock = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(path)):
            return lock
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.ENOENT):
            os.close(lock)
            return NOT_LOCKABLE
    os.close(lock)
    return None


def _remove_held(path: Path, lock: int) -> None:
    _remove(path)
    if lock != NOT_LOCKABLE:
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove a file or a folder, as far as that is possible; it may be gone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()

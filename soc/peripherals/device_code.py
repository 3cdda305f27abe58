"""Code of the user's own devices: run only if it is the user's, and a chip file names it."""

import grp
import os
import pwd
import stat
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from soc.chip.device_spec import DeviceSpec
from soc.config.toml import ConfigError
from soc.peripherals.device import Device


def device_class(spec: DeviceSpec) -> type[Device]:
    """The class that a device's table names.

    raises    ConfigError: no chip file of the user's names it, the file cannot be read, belongs to
              another user or may be written by others, fails, or has no such class
    """
    source, _, name = spec.module.rpartition(":")
    if not source or not name.isidentifier():
        _refuse(spec, 'module must be a file and a class: "mine.py:Engine"')
    if spec.folder is None:
        _refuse(
            spec,
            "its code is run only if a chip file names it, not for a trace, a checkpoint, a "
            "database or an option; give the chip file",
        )
    file = Path(os.path.normpath(spec.folder / source))
    found = getattr(_module(spec, str(file), _text(spec, file)), name, None)
    if not (isinstance(found, type) and issubclass(found, Device)):
        _refuse(spec, f"{file} has no class {name} derived from soc.peripherals.device.Device")
    return found


def _text(spec: DeviceSpec, file: Path) -> bytes:
    """The content of a file that is the user's own."""
    try:
        with file.open("rb") as stream:
            status = os.fstat(stream.fileno())  # of what is read, whatever the name leads to later
            if not stat.S_ISREG(status.st_mode):
                _refuse(spec, f"{file} is no regular file")
            if status.st_uid != os.geteuid():
                _refuse(spec, f"{file} belongs to another user: its code is not run")
            if status.st_mode & stat.S_IWOTH or _is_group_wide(status):
                _refuse(spec, f"{file} may be written by others: its code is not run (chmod go-w)")
            return stream.read()
    except OSError as error:
        _refuse(spec, f"{file}: {error.strerror}")


def _is_group_wide(status: os.stat_result) -> bool:
    """May a group write it that is not the user's own, of the user's name?"""
    if not status.st_mode & stat.S_IWGRP:
        return False
    try:
        group = grp.getgrgid(status.st_gid).gr_name
        return group != pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return True


@lru_cache(maxsize=32)
def _module(spec: DeviceSpec, file: str, text: bytes) -> ModuleType:
    module = ModuleType(Path(file).stem)
    module.__file__ = file
    try:
        exec(compile(text, file, "exec"), vars(module))
    except Exception as error:
        _refuse(spec, f"{file}: {type(error).__name__}: {error}")
    return module


def _refuse(spec: DeviceSpec, why: str) -> NoReturn:
    raise ConfigError([f"device {spec.name!r}: {why}"])

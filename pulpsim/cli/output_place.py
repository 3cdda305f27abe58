"""Where a command writes if it is not told: beside what it reads."""

from pathlib import Path

from soc.config.toml import ConfigError


def beside(file: Path, suffix: str) -> Path:
    """The file's name with another suffix, ".elf".

    raises    ConfigError if it has no name
    """
    if not file.name:
        raise ConfigError([f"{file}: cannot be read: it is a folder; give the path of a file"])
    return file.with_suffix(suffix)

"""pulpsim new: writes a project to start from; pulpsim sdk: where the C SDK lies."""

from pathlib import Path
from shutil import copyfile

from soc.config.toml import ConfigError

STARTER = Path(__file__).parent / "starter"
SDK = Path(__file__).parents[3] / "firmware" / "c"

NEXT = """\
{folder}: a program for all cores, with its config, Makefile and a script that measures it

    cd {folder}
    make run            compile main.c, run it: needs riscv64-unknown-elf-gcc
    make profile        which of its lines take the cycles
    python measure.py   on one to eight cores
"""


def new(folder: Path) -> str:
    """Write the project; returns what can be done with it.

    raises    ConfigError if there is something in the folder, or it cannot be written
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError([f"{folder}: is there already, and not empty; give another folder"])
        folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(STARTER.iterdir()):
            name = file.name.removesuffix(".in").replace("dot-", ".")
            copyfile(file, folder / name)
    except OSError as error:
        raise ConfigError([f"{folder}: cannot be written: {error.strerror}"]) from None
    return NEXT.format(folder=folder)

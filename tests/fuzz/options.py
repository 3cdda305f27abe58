"""Bad values of every option and argument of every command."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import typer

from tests.fuzz.damage import toml_text
from tests.fuzz.formats import PRODUCT, ROOT, Case, Format, written

VALUES = ("", " ", "x", "-", "0", "-1", "1.5", "nan", "1e999", str(1 << 70), "9" * 5000)
VALUES += ("a=b", "=", "a=", "l1.banks=x", "kind=issue", "5-1", "-5--1", "0x", "1-" + "9" * 30)
VALUES += ("\udcff", "\x1b[31m", "\u202e", "%s", "*", "[", "{}", "x" * 5000, "a\0b", "a\nb")
FILES = ("missing", "missing/file", "folder", "empty", "unreadable", "pipe.toml", "/dev/null")
FILES += (
    "empty.toml",
    "folder.toml",
    "empty.s",
    "loop",
    "text.npz",
    "missing.toml",
    "unreadable.toml",
)
"""Names of what lies in the folder, or does not."""

WORKING = {
    "run": ["--elf", "hello.elf", "--max-cycles", "3000", "--quiet"],
    "chips": ["pulp"],
    "kernels": ["matmul_f32"],
    "build": ["kernel.toml"],
    "new": ["missing"],
    "sdk": [],
    "tune": ["layers.toml"],
    "deploy": ["missing.py:build"],
    "gdb": ["missing.elf"],
    "footprint": ["layers.toml"],
    "report": ["small.trace"],
    "study": ["stride"],
    "fidelity": ["--only", "no-such-group"],
    "asm": ["hello.s"],
    "dis": ["hello.elf"],
    "isa": ["p.lw"],
    "trace show": ["small.trace"],
    "trace export": ["small.trace", "--to", "csv"],
    "annotate": ["small.trace"],
}
"""What each command is told besides the bad value; a second value of an argument is too many."""

NEVER = {"--help", "--tui", "--web"}
SLOW = {"tune", "study"}
"""Commands that work where a value is not refused: all of theirs get one more that is."""


class Options(Format):
    name, count = "options", 4_000
    is_usage: ClassVar = True

    def prepare(self, samples: Path) -> None:
        from pulpsim.commands.app import app
        from tests.isa.fuzz import elf_seeds

        self.cases = list(_cases(typer.main.get_command(app)))
        random.Random(1).shuffle(self.cases)
        self.elf = elf_seeds()[0]
        self.trace = (samples / "small.trace").read_bytes()

    @staticmethod
    def make_samples(folder: Path) -> None:
        from tests.pulpsim.trace.recordings import recording

        recording(folder)

    def case(self, folder: Path, number: int, rng: random.Random) -> Case:
        self._fill(folder)
        command, option, values = self.cases[number % len(self.cases)]
        words = [*command.split(), *WORKING[command]]
        if not option:
            words = [*command.split(), *values, *WORKING[command][1:]]
        else:
            words += [option, *values]
        if command in SLOW:
            words += ["--set", "cores=none"]
        return folder / "hello.elf", words

    def _fill(self, folder: Path) -> None:
        written(folder / "hello.elf", self.elf)
        written(folder / "small.trace", self.trace)
        written(folder / "hello.s", (ROOT / "examples" / "hello.s").read_bytes())
        written(folder / "kernel.toml", toml_text({"program": PRODUCT}))
        layer = {"name": "fc", "kernel": "linear_fw_f32", "args": {"inputs": 16, "outputs": 8}}
        written(folder / "layers.toml", toml_text({"layers": [layer]}))
        for name in ("empty", "empty.toml", "empty.s"):
            written(folder / name, b"")
        written(folder / "text.npz", b"text")
        for name in ("folder", "folder.toml"):
            (folder / name).mkdir(exist_ok=True)
        for name in ("unreadable", "unreadable.toml"):
            written(folder / name, b"").chmod(0)
        (folder / "loop").symlink_to("loop")


def _cases(group: Any, of: str = "") -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Command, option and its values: "" is the first argument, a flag has no value."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _cases(command, f"{name} ")
            continue
        for parameter in command.params:
            is_argument = parameter.param_type_name == "argument"
            option = "" if is_argument else parameter.opts[-1]
            if option in NEVER:
                continue
            if getattr(parameter, "is_flag", False):
                yield of + name, option, ()
                continue
            for value in (*VALUES, *FILES):
                yield of + name, option, (value,) * max(parameter.nargs, 1)

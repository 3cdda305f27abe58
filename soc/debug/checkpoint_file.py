"""Checkpoints as files: a ZIP archive of arrays, of JSON, and of the program.

    about.json          format, cycles, chip, what the host side remembers
    program.elf         what runs
    NAME.numbers.npy    of each of the chip's arrays the numbers of its pages that are not zeros
    NAME.pages.npy      and these pages

It can be read on any machine, by a simulator whose arrays and instructions are the same: `layout`
says so. The file has an earlier cycle than the one that is wanted, MARGIN cycles before it or more:
from there the run goes on to it. Nothing of the file is executed.
"""

import hashlib
import json
import sys
import zipfile
import zlib
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from isa.elf.reader import ElfError
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.chip.state import ARRAYS, PAGE, Packed
from soc.config.toml import ConfigError
from soc.debug.checkpoint import STATE, Checkpoint, Host, checkpoint, is_idle, restore
from soc.debug.plain_json import decoded, encoded
from soc.host.temporary import replaced
from soc.result import Exit
from soc.simulation import Simulation

FORMAT = "pulpsim.checkpoint/1"
ABOUT, PROGRAM = "about.json", "program.elf"
PART = ".pulpsim-part-"
LARGEST = 1 << 28
"""Bytes of an entry, unpacked."""


MARGIN = 256
"""Cycles within which harts that have run ahead note what happens: stalls of a division, say. So a
trace that begins with the cycle that is wanted has them."""


def save_at(simulation: Simulation, cycle: int, file: Path) -> Exit | None:
    """Let a simulation run on to a cycle, and write where it is then.

    Returns how the program has ended, if it has before that; nothing is written then.

    raises    ConfigError as save does
    """
    end = simulation.run_on(max(simulation.cycle, cycle - MARGIN))
    is_early = simulation.cycle <= max(0, cycle - MARGIN) and is_idle(simulation)
    earlier = checkpoint(simulation) if is_early else None
    end = end or simulation.run_on(cycle)
    if end is None:
        save(simulation, file, earlier)
    return end


def save(simulation: Simulation, file: Path, earlier: Checkpoint | None = None) -> None:
    """Write where a simulation is, which does not run.

    earlier    the same run, MARGIN cycles before; None: it is found

    raises    ConfigError if it cannot be, or the file cannot be written
    """
    if simulation.engine != "compiled":
        raise ConfigError([f"{file}: the event engine has no checkpoints; use the compiled engine"])
    if simulation.end is not None:
        raise ConfigError([f"{file}: the program has ended in cycle {simulation.cycle}"])
    kept = earlier or checkpoint(_idle_before(simulation))
    about = {
        "format": FORMAT,
        "layout": layout(simulation),
        "cycle": simulation.cycle,
        "first": kept.cycle,
        "chip": simulation.spec.model_dump(mode="json"),
        "program": digest(simulation.program),
        "host": {field.name: encoded(getattr(kept.host, field.name)) for field in fields(Host)},
    }
    try:
        with replaced(file, PART) as stream, zipfile.ZipFile(stream, "w", COMPRESSION) as archive:
            archive.writestr(ABOUT, json.dumps(about))
            archive.writestr(PROGRAM, simulation.program.to_elf())
            for name, packed in kept.arrays.items():
                archive.writestr(f"{name}.numbers.npy", _npy(packed.numbers.astype("<i8")))
                archive.writestr(f"{name}.pages.npy", _npy(packed.pages))
    except OSError as error:
        raise ConfigError([f"{file}: cannot be written: {error.strerror}"]) from None


COMPRESSION = zipfile.ZIP_DEFLATED


def _idle_before(simulation: Simulation) -> Simulation:
    """The same run, MARGIN cycles before or more, in a cycle in which its host side is idle."""
    now, distance = simulation, MARGIN
    while True:
        other = Simulation(now.program, now.spec, now.engine, lambda text: None, now.progress)
        other.run_on(max(0, now.cycle - distance))
        if is_idle(other) or not other.cycle:
            return other
        distance *= 4


class CheckpointFile:
    """A checkpoint that has been read.

    file      where from
    cycle     to which a simulation is brought
    raises    ConfigError if it cannot be read, or is no checkpoint of this simulator
    """

    def __init__(self, file: Path):
        self.file = file
        try:
            with zipfile.ZipFile(file) as archive:
                self._entries = {name: _entry(archive, name) for name in archive.namelist()}
            self._about: dict[str, Any] = json.loads(self._entries[ABOUT])
            written = self._about["format"]
            self.cycle, self._first = int(self._about["cycle"]), int(self._about["first"])
        except OSError as error:
            raise self._refusal(f"cannot be read: {error.strerror}") from None
        except DAMAGED:
            raise self._refusal("is no checkpoint, or damaged") from None
        if written != FORMAT:
            raise self._refusal(f"its format is {written!r}, not {FORMAT!r}")

    def program(self) -> Program:
        """What runs."""
        try:
            return Program.from_elf(self._entries[PROGRAM], f"{self.file}: {PROGRAM}")
        except (KeyError, ElfError):
            raise self._refusal("is no checkpoint, or damaged") from None

    def chip(self) -> SocSpec:
        """On what."""
        try:
            return SocSpec.model_validate(self._about["chip"])
        except DAMAGED:
            raise self._refusal("is no checkpoint, or damaged") from None

    def restore(self, simulation: Simulation) -> None:
        """Let a simulation that has not begun be where this was taken.

        raises    ConfigError if its chip or program is another one, or it is checked
        """
        if simulation.is_checked:
            raise self._refusal("what came before it is not known to checks; run from the start")
        if self._about["program"] != digest(simulation.program):
            raise self._refusal(f"is of another program than {simulation.program.name}")
        differing = _differing(self._about["chip"], simulation.spec.model_dump(mode="json"))
        if differing:
            raise self._refusal(f"is of a chip with another {differing}")
        if self._about["layout"] != layout(simulation):
            raise self._refusal("is of another version of the simulator; take it anew")
        try:
            restore(self._kept(), simulation)
        except DAMAGED:
            raise self._refusal("is damaged") from None
        simulation.run_on(self.cycle)
        simulation.first = self.cycle

    def _kept(self) -> Checkpoint:
        arrays = {name: self._packed(name) for name in STATE}
        remembered = self._about["host"]
        host = Host(**{field.name: decoded(remembered[field.name]) for field in fields(Host)})
        return Checkpoint(self._first, arrays, host)

    def _packed(self, name: str) -> Packed:
        numbers, pages = (
            np.load(BytesIO(self._entries[f"{name}.{part}.npy"]), allow_pickle=False)
            for part in ("numbers", "pages")
        )
        if pages.dtype != np.uint8 or pages.shape != (numbers.size, PAGE):
            raise ValueError(f"{name}: pages of {pages.dtype}, {pages.shape}")
        return Packed(0, numbers, pages)

    def _refusal(self, why: str) -> ConfigError:
        return ConfigError([f"{self.file}: {why}"])


DAMAGED = (
    KeyError,
    TypeError,
    ValueError,
    EOFError,
    AttributeError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
)
"""What reading raises where a file is not what it should be."""


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > LARGEST:
        raise ValueError(f"{name}: more than {LARGEST} bytes")
    return archive.read(name)


def _npy(array: np.ndarray) -> bytes:
    stream = BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def layout(simulation: Simulation) -> str:
    """Names the arrays that make up a chip, and the numbers of its instructions."""
    arrays = [
        (name, str(ARRAYS[name].descr if ARRAYS[name].names else ARRAYS[name].str))
        for name in STATE
    ]
    insns = [insn.name for insn in simulation.isa.insns]
    return hashlib.sha256(json.dumps([sys.byteorder, arrays, insns]).encode()).hexdigest()


def digest(program: Program) -> str:
    """Names a program by what is loaded."""
    named = hashlib.sha256(str(program.entry).encode())
    for segment in program.segments:
        named.update(f"{segment.address} {segment.size} ".encode() + bytes(segment.data))
    return named.hexdigest()


def _differing(one: Any, other: Any, path: str = "") -> str:
    """The first field that is not the same in two chips; "" if there is none."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return "" if one == other else path
    for name in sorted({*one, *other}):
        found = _differing(one.get(name), other.get(name), f"{path}.{name}" if path else name)
        if found:
            return found
    return ""

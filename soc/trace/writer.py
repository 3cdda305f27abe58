"""Writes a trace: its header first, events as they come, what is known at the end last."""

import ctypes
import json
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from isa.program import ElfError, Program
from soc.chip.profile import float_registers, isa_of
from soc.chip.spec import SocSpec
from soc.interconnect.tcdm import DMA_PORTS, EXTERNAL_PORTS
from soc.prelude.trace_event import EVENT
from soc.trace.header import ALIGNMENT, LENGTH_END, MAGIC, VERSION

ROOM = 1 << 16
"""Bytes of the header at least that are left for what is known at the end."""
AHEAD = 1 << 24
"""Bytes at most that are asked of the file system beyond those that are written."""
KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE of Linux."""


class TraceWriter:
    """A trace that is being written.

    header    see soc.trace.reader and new_header; not `complete` until the trace is closed
    raises    OSError, here and in append, as the file system has it
    """

    def __init__(self, file: Path, header: dict[str, Any]):
        self.header = header | {"complete": False}
        text = json.dumps(self.header).encode()
        self.start = -(-(LENGTH_END + len(text) + ROOM) // ALIGNMENT) * ALIGNMENT
        self.count = self.room = 0
        self.stream = _new_stream(file)
        try:
            self._write_header()
        except OSError:
            self.stream.close()
            raise

    def append(self, events: np.ndarray) -> None:
        """Write EVENT[n] after those that are there."""
        self.put(self.count, events)

    def put(self, place: int, events: np.ndarray) -> None:
        """Write EVENT[n] from a place on, where events are or end.

        Of what does not fit, the events that do are kept.
        """
        data = np.ascontiguousarray(events).data.cast("B")
        position = self.start + place * EVENT.itemsize
        if position + len(data) > self.room:
            self.room = position + len(data) + min(position, AHEAD)
            _reserve(self.stream, position, self.room)
        self.stream.seek(position)
        done = 0
        try:
            while done < len(data):
                done += self.stream.write(data[done:])
        finally:
            self.count = max(self.count, place + done // EVENT.itemsize)
            if done < len(data):
                self.stream.truncate(self.start + self.count * EVENT.itemsize)

    def tail(self, most: int) -> tuple[int, np.ndarray]:
        """The last events, at most so many, and the place of the first of them."""
        place = max(0, self.count - most)
        self.stream.seek(self.start + place * EVENT.itemsize)
        data = self.stream.read((self.count - place) * EVENT.itemsize)
        return place, np.frombuffer(data, EVENT).copy()

    def close(self, **known: Any) -> None:
        """Write what is known now into the header, and close the file."""
        self.header |= {"events": self.count, **known}
        try:
            self.stream.truncate(self.start + self.count * EVENT.itemsize)
            self._write_header()
        finally:
            self.stream.close()

    def _write_header(self) -> None:
        text = json.dumps(self.header).encode()
        length = self.start - LENGTH_END
        self.stream.seek(0)
        self.stream.write(MAGIC + length.to_bytes(4, "little") + text.ljust(length))


def _new_stream(file: Path) -> FileIO:
    """Open a file anew. Who is reading one of this name that is older goes on reading that."""
    if file.is_file() and not file.is_symlink() and os.access(file, os.W_OK):
        with suppress(OSError):  # a file can be written where none can be removed
            file.unlink()
    return file.open("w+b", buffering=0)


def _reserve(stream: FileIO, start: int, end: int) -> None:
    """Ask the file system for room, all at once: what is written there then costs a third less.

    The file does not grow by that. Where this cannot be had, it is done without.
    """
    allocate = getattr(ctypes.CDLL(None), "fallocate", None)
    if allocate:
        place = ctypes.c_int64(start), ctypes.c_int64(end - start)
        allocate(stream.fileno(), KEEP_SIZE, *place)


def new_header(spec: SocSpec, program: Program, **about: Any) -> dict[str, Any]:
    """What is known before the run: the chip, the program; `about` adds or replaces fields."""
    registers = float_registers(spec, program)
    return {
        "version": VERSION,
        "chip": spec.model_dump(mode="json"),
        "isa": isa_of(spec, registers).name,
        "harts": hart_names(spec),
        "initiators": initiator_names(spec),
        "banks": spec.l1.banks,
        "first_cycle": 0,
        "cycles": None,
        "filters": {},
        "program": program.name,
        "code": [[s.address, program.bytes_at(s.address, s.size).hex()] for s in program.code],
        "symbols": _symbols(program),
        "regions": {},
        "lines": _lines(program),
    } | about


def hart_names(spec: SocSpec) -> list[str]:
    """Names of the harts, by number."""
    return [*(f"core{h}" for h in range(spec.cores)), *["fc"] * spec.fabric_controller.present]


def initiator_names(spec: SocSpec) -> list[str]:
    """Names of the initiators of L1, by number; "" for numbers between them that none has."""
    external = [f"external{port}" for port in range(EXTERNAL_PORTS)]
    if spec.fabric_controller.present:
        external[0] = "fc"
    names = [*(f"core{h}" for h in range(spec.cores)), *external]
    inputs = 1 << (len(names) + DMA_PORTS - 1).bit_length()
    unused = [""] * (inputs - DMA_PORTS - len(names))
    devices = [f"{device.name}{port}" for device in spec.device for port in range(device.ports)]
    return [*names, *unused, *(f"dma{lane}" for lane in range(DMA_PORTS)), *devices]


def _symbols(program: Program) -> list[list]:
    """Address, bytes and name of what the program's code holds, by address."""
    rows = []
    for part in program.code:
        end = part.address + part.size
        inside = {s.address for s in program.symbols if part.address <= s.address < end}
        best = [program.symbol_at(address) for address in sorted(inside)]
        named = [symbol for symbol in best if symbol is not None]
        ends = [*(symbol.address for symbol in named), end][1:]
        for symbol, end in zip(named, ends, strict=True):
            rows.append([symbol.address, symbol.size or end - symbol.address, symbol.name])
    return sorted(rows)


def _lines(program: Program) -> list[list]:
    """Where each source line begins, and where there is none (""). [] if the table is malformed."""
    steps: dict[int, str] = {}
    try:
        ranges = program.lines.ranges
    except ElfError:
        return []
    for row in ranges:
        steps[row.start] = f"{row.file}:{row.line}"
        steps.setdefault(row.end, "")
    return [[pc, name] for pc, name in sorted(steps.items())]

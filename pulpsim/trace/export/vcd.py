"""Waveforms: a value change dump of harts, banks of L1 and lanes of the DMA, a cycle as 1 ns.

    HART.pc          of the instruction issued last
    HART.stall       why it issues nothing, "run" where it does; GTKWave and Surfer know strings
    l1.bankN_used    an access is granted
    l1.bankN_lost    how many initiators lost the arbitration
    dma.LANE_reads   a beat from L1, and LANE_writes to it

Beside it lies a save file of GTKWave, FILE.gtkw, which opens it with these signals in groups.

Sources: IEEE 1364-2005, section 18; GTKWave 3.3 Wave Analyzer User's Guide, appendix on save files.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from pulpsim.cli.terminal import one_line
from pulpsim.trace.aggregates import banks_of
from pulpsim.trace.export import text
from pulpsim.trace.selection import Selection
from soc.prelude.counters import CAUSES
from soc.trace.reader import EVENT, Kind, Trace

RUN = len(CAUSES)
STALLS = (*CAUSES, "run")
FIRST_CODE, CODES = ord("!"), 94
"""Characters that identifiers are made of."""

HEXADECIMAL, BINARY, TEXT = 0x22, 0x28, 0x820
GROUP_BEGIN, GROUP_END = 0x800200, 0x1000200
"""How GTKWave shows the lines that follow: flags of its save files."""

Changes = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Cycles since the trace's first, signals, and their values from then on."""


class Signal(NamedTuple):
    """A line of the waveform."""

    scope: str
    name: str
    kind: str  # "wire" or "string"
    bits: int


def vcd(trace: Trace, selection: Selection, stream: BinaryIO) -> None:
    """Write the selected events as a value change dump."""
    waves = _Waves(trace)
    stream.write(waves.header().encode())
    for part in whole_cycles(selection.parts(trace)):
        stream.write(waves.dump(part))
    stream.write(waves.rest())


def whole_cycles(parts: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The same events, each part up to the end of a cycle."""
    held = np.zeros(0, EVENT)
    for part in parts:
        events = np.concatenate([held, part])
        if events.size:
            cut = int(np.searchsorted(events["cycle"], events["cycle"][-1]))
            events, held = events[:cut], events[cut:]
        if events.size:
            yield events
    yield held


class _Waves:
    """The signals, and changes of them that lie after the events seen so far."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.signals = list(_signals(trace))
        self.harts = len(trace.harts)
        self.first_bank = 2 * self.harts
        self.first_lane = self.first_bank + 2 * trace.banks
        is_lane = np.array([name.startswith("dma") for name in trace.initiators])
        self.lane_of = np.cumsum(is_lane) - 1
        self.codes = text.labels([_code(number) for number in range(len(self.signals))])
        self.bits = np.array([signal.bits for signal in self.signals])
        self.is_stall = np.array([signal.kind == "string" for signal in self.signals])
        self.end = 0  # last cycle with a change, since the trace's first
        self.later: Changes = (np.zeros(0, np.int64),) * 3

    def header(self) -> str:
        """The declarations, and all values at the beginning."""
        lines = [f"$version pulpsim $end\n$comment {_plain(self.trace)} $end\n$timescale 1 ns $end"]
        scope = ""
        for number, signal in enumerate(self.signals):
            if signal.scope != scope:
                lines += ["$upscope $end"] * bool(scope) + [f"$scope module {signal.scope} $end"]
                scope = signal.scope
            lines.append(f"$var {signal.kind} {signal.bits} {_code(number)} {signal.name} $end")
        lines += [
            "$upscope $end",
            "$enddefinitions $end",
            f"#{self.trace.first_cycle}",
            "$dumpvars",
        ]
        for number, signal in enumerate(self.signals):
            code = _code(number)
            start = "0" if signal.bits == 1 else "b0 " if signal.scope in ("l1", "dma") else "bx "
            lines.append(f"srun {code}" if signal.kind == "string" else f"{start}{code}")
        return "\n".join([*lines, "$end", ""])

    def dump(self, part: np.ndarray) -> bytes:
        """The changes up to the last cycle of EVENT[n], which are all of its cycles."""
        if not part.size:
            return b""
        made = [self.later, *self._changes(part)]
        return self._lines(made, int(part["cycle"][-1]) + 1)

    def rest(self) -> bytes:
        """What is left, and the end of the run."""
        lines = self._lines([self.later], 1 << 62)
        end = max(self.trace.cycles, self.trace.first_cycle + self.end)
        return lines + f"#{end}\n".encode()

    def _changes(self, part: np.ndarray) -> Iterator[Changes]:
        """Ends first: where something else begins in the same cycle, that counts."""
        kinds, cycles = part["kind"], part["cycle"].astype(np.int64)
        owners = part["hart"].astype(np.int64)
        stalls = kinds == Kind.STALL
        signals = 2 * owners[stalls] + 1
        yield cycles[stalls] + part["b"][stalls], signals, np.full(signals.size, RUN)
        banks = banks_of(self.trace, part)
        lost = kinds == Kind.CONFLICT
        used = (banks >= 0) & ~lost
        bank_signals = self.first_bank + 2 * banks
        yield from _pulses(cycles[used], bank_signals[used])
        yield from _pulses(cycles[lost], bank_signals[lost] + 1)
        beats = kinds == Kind.DMA
        lanes = self.first_lane + 2 * self.lane_of[owners[beats]] + (part["extra"][beats] & 1)
        yield from _pulses(cycles[beats], lanes)
        issues = kinds == Kind.ISSUE
        yield cycles[issues], 2 * owners[issues], part["a"][issues].astype(np.int64)
        yield cycles[stalls], signals, part["extra"][stalls].astype(np.int64)

    def _lines(self, made: list[Changes], end: int) -> bytes:
        """The changes before a cycle, of a signal the last in each cycle; the others are kept."""
        cycles, signals, values = (np.concatenate(columns) for columns in zip(*made, strict=True))
        later = cycles >= end
        self.later = cycles[later], signals[later], values[later]
        cycles, signals, values = cycles[~later], signals[~later], values[~later]
        if not cycles.size:
            return b""
        self.end = int(cycles.max())
        keys = cycles * len(self.signals) + signals
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        order = order[np.append(keys[1:] != keys[:-1], True)]
        return self._text(cycles[order], signals[order], values[order])

    def _text(self, cycles: np.ndarray, signals: np.ndarray, values: np.ndarray) -> bytes:
        is_new = np.diff(cycles, prepend=-1) != 0
        times = text.joined("#", text.decimal(cycles + self.trace.first_cycle), "\n")
        shown = np.zeros((cycles.size, 34), np.uint8)
        bits, is_stall = self.bits[signals], self.is_stall[signals]
        for width in (1, 8, 32):
            rows = (bits == width) & ~is_stall
            shown[rows, : 1 if width == 1 else width + 2] = _binary(values[rows], width)
        names = text.joined("s", text.labels(STALLS)[np.where(is_stall, values, 0)], " ")
        shown[is_stall, : names.shape[1]] = names[is_stall]
        lines = text.joined(
            np.where(is_new[:, None], times, np.uint8(0)), shown, self.codes[signals], "\n"
        )
        return text.written(lines)


def _pulses(cycles: np.ndarray, signals: np.ndarray) -> Iterator[Changes]:
    """For one cycle, how many of the events a signal has; 0 after."""
    if cycles.size:
        top = int(signals.max()) + 1
        keys, counts = np.unique(cycles * top + signals, return_counts=True)
        yield keys // top + 1, keys % top, np.zeros(keys.size, np.int64)
        yield keys // top, keys % top, counts


def _binary(values: np.ndarray, bits: int) -> text.Column:
    digits = (values[:, None] >> np.arange(bits - 1, -1, -1) & 1).astype(np.uint8) + text.DIGITS[0]
    return digits if bits == 1 else text.joined("b", digits, " ")


def _signals(trace: Trace) -> Iterator[Signal]:
    """All signals; a hart has two, then a bank, then a lane."""
    for name in trace.harts:
        yield Signal(name, "pc", "wire", 32)
        yield Signal(name, "stall", "string", 8)
    for bank in range(trace.banks):
        yield Signal("l1", f"bank{bank}_used", "wire", 1)
        yield Signal("l1", f"bank{bank}_lost", "wire", 8)
    for name in trace.initiators:
        if name.startswith("dma"):
            yield Signal("dma", f"{name}_reads", "wire", 1)
            yield Signal("dma", f"{name}_writes", "wire", 1)


def _code(number: int) -> str:
    code = chr(FIRST_CODE + number % CODES)
    return code if number < CODES else _code(number // CODES - 1) + code


def view(trace: Trace, file: Path) -> bytes:
    """GTKWave's save file for a VCD of this trace: `gtkwave FILE.gtkw` shows it."""
    lines = [
        f'[dumpfile] "{one_line(str(file.resolve()))}"',
        f"[timestart] {trace.first_cycle}",
    ]
    for scope, signals in groupby(_signals(trace), lambda signal: signal.scope):
        lines += [f"@{GROUP_BEGIN:x}", f"-{scope}"]
        for signal in signals:
            bits = f"[{signal.bits - 1}:0]" if signal.kind == "wire" and signal.bits > 1 else ""
            flags = TEXT if signal.kind == "string" else HEXADECIMAL if bits else BINARY
            lines += [f"@{flags:x}", f"{scope}.{signal.name}{bits}"]
        lines += [f"@{GROUP_END:x}", f"-{scope}"]
    return "".join(f"{line}\n" for line in lines).encode()


def _plain(trace: Trace) -> str:
    """The program's name, so that it cannot end the comment."""
    return one_line(str(trace.header.get("program", ""))).replace("$", "_")

"""Translates what is hot into machine code: see soc.segments.

Translating takes a tenth of a second for each segment, so a process of its own does it while the
simulation goes on; the machine code is kept beside that of the units, under a name that says all
that goes into it, and the next simulation that comes to the same code finds it there.
"""

import atexit
import hashlib
import subprocess
from contextlib import suppress
from functools import cache
from operator import is_
from pathlib import Path
from time import monotonic

import numpy as np

from soc import signals
from soc.cache_folder import cache_folder, is_temporary
from soc.chip_state import Chip
from soc.code_memory import WHOLE_ROW, CodeMemory
from soc.compiling import start, stop
from soc.decode import UNDECODED
from soc.hot_code import ISSUE
from soc.interpreter import Interpreter, segment_steps
from soc.known_code import WARM, Known, name_of, recall, remember, take_up
from soc.links import FLOATS
from soc.machine_code import define
from soc.segment_code import has_come, is_there, together, together_known
from soc.segment_path import Segment, content, segment_from
from soc.segment_text import PURE_SYMBOL, module_text
from soc.state import SEGMENTS
from soc.translated import Together, Translation, translation
from soc.unit_cache import key

HOT = 1 << 18
"""Interpretations after which it is translated: about as long as that takes."""

SPACING = 2000
"""Cycles between two looks: what is in a loop becomes warm at about the same time."""

PAUSE = 0.01
"""Seconds after which one asks again for what is being translated."""
MOST_PAUSES = 30
"""How much longer than it takes to ask the pause is, at least."""


class Translator:
    """Translates the hot segments of a simulation.

    kind    of the steps that they consist of, see segment_kind
    """

    warm, hot, spacing = WARM, HOT, SPACING
    waits = False
    """For what it has started to translate, as tests do."""

    def __init__(self, chip: Chip, code: CodeMemory, kind: str):
        self.chip, self.code, self.kind = chip, code, kind
        self.hot_code = chip.hot_code[0]
        self.hot_code["warm"] = self.warm
        self.now, self.count = chip.wheel["now"].data, chip.hot_code["translations"].data
        self.decoded = chip.code.view(WHOLE_ROW)
        self.program: bytes | None = None
        self.known: Known | None = None
        self.together: Together | None = None
        self.is_news = False
        self.changes = 0
        self.next_look = 0  # cycle
        self.next_wait = 0.0  # s
        self.segments: dict[tuple[int, int], tuple[Segment, Translation]] = {}
        self.waiting: list[Translation] = []
        self.used: list[Translation] = []

    def expect(self, pc: int) -> frozenset[str]:
        """Know the program that begins here by its name; returns extensions that it comes to."""
        first = (pc - self.code.base) >> 1
        if self.warm <= self.hot and 0 <= first < len(self.code.halves):
            self.program = name_of(self.code, first)
            self.known = recall((self.kind, self.program))
        return self.known.extensions if self.known else frozenset()

    def use(self, interpreter: Interpreter) -> None:
        """Let segments consist of the steps of this interpreter from now on.

        Machine code that runs before this one have used is loaded.
        """
        self.steps, self.extensions = segment_steps(interpreter), interpreter.extensions
        known = self.known
        self.is_news = known is not None and known.steps == _steps_key(self.steps)
        if known and self.is_news:
            self.together = together_known(known)
            self.code.expected = dict(known.runs)

    def recall(self) -> None:
        """Use what is known of newly decoded code."""
        if self.known and self.is_news:
            self.is_news = False
            take_up(self.known, self.chip)
            if self.together and self.together.fits(self.decoded):
                self._install(self.together)
                self.next_wait = monotonic() + PAUSE
                return
            self.together = None
            self.waiting += self.known.translations
        self._use_what_is_there()

    def remember(self) -> None:
        """Let the program's next run know what this one has found out; to be called at its end."""
        if not (self.program and self.code.count):
            return
        now, then = (*self.used, *self.waiting), self.known.translations if self.known else ()
        is_same = len(now) == len(then) and all(map(is_, now, then))
        remember(
            (self.kind, self.program),
            _steps_key(self.steps),
            frozenset(self.extensions),
            self.code,
            now,
            self.together if is_same else None,
        )

    def look(self, is_due: bool) -> None:
        """Use what is translated; to be called between two calls of run.

        is_due    something has become hot
        """
        is_due = is_due and self.now[0] >= self.next_look
        if self.count[0] < len(self.used):  # decoded rows have changed
            self.waiting += self.used
            self.used = []
        elif not is_due and not (self.waiting and monotonic() >= self.next_wait):
            return
        self._use_what_is_there()
        if is_due:
            self.next_look = self.now[0] + self.spacing
            self._look_at_rows()
            self._use_what_is_there()

    def _use_what_is_there(self) -> None:
        """Install what is translated by now, and made of what is decoded now."""
        started = monotonic()
        if any(map(is_there, self.waiting)):
            self._install(together(self.waiting, self.decoded, SEGMENTS - self.count[0]))
        now = monotonic()
        self.next_wait = now + max(PAUSE, MOST_PAUSES * (now - started))

    def _look_at_rows(self) -> None:
        """Choose what is worth a translation."""
        if self.hot_code["changes"] != self.changes:
            self.changes = int(self.hot_code["changes"])
            self.segments = {}
        codes = self.chip.segments["code"]
        warm = [made for _, made in self._segments(self.warm - self.warm // 8)]
        found = {(made.row, made.begins): made for made in warm if not codes[made.row, made.begins]}
        others = [each for each in self.waiting if (each.row, each.begins) not in found]
        self.waiting = [*found.values(), *others]
        is_hot = self.count[0] or self._rows(self.hot)
        worth = self.hot // 16 if is_hot else self.hot  # what is around hot loops, too
        if self._is_translating():
            return
        missing = {each.file for each in self.waiting if not is_there(each)}
        texts = {
            str(made.file): module_text(self.chip, segment, f"pulpsim_{self.steps.kind}")
            for segment, made in self._segments(worth)
            if made.file in missing
        }
        if texts:
            self._translate(texts)

    def _segments(self, heat: int) -> list[tuple[Segment, Translation]]:
        """Segments that were interpreted so often, and those that begin where these pause."""
        waiting, found = self._rows(heat), []
        for begin in waiting:
            if begin not in self.segments:
                segment = segment_from(self.chip, *begin)
                if segment is None:
                    continue
                made = translation(self.chip, segment, self._file(segment))
                self.segments[begin] = segment, made
            segment = self.segments[begin][0]
            next_begin = segment.places[-1].row, ISSUE
            if segment.pauses and next_begin not in waiting:
                waiting.append(next_begin)
            if len(segment.places) > 1:
                found.append(self.segments[begin])
        return found

    def _rows(self, heat: int) -> list[tuple[int, int]]:
        """Rows that are interpreted, so often up to now, and how they begin; the hottest first."""
        found: list[tuple[int, int, int]] = []
        for first, end in self.code.spans:
            heats, codes = (self.chip.segments[name][first:end] for name in ("heat", "code"))
            is_decoded = self.chip.code["kind"][first:end, None] != UNDECODED
            rows, begins = np.nonzero((heats >= heat) & (codes == 0) & is_decoded)
            found += zip(-heats[rows, begins], rows + first, begins, strict=True)
        return [(int(row), int(begin)) for _, row, begin in sorted(found)]

    def _file(self, segment: Segment) -> Path:
        """Where the machine code of a segment is kept."""
        known = _steps_key(self.steps).encode() + content(self.chip, segment)
        return cache_folder() / f"segment-{hashlib.sha256(known).hexdigest()[:32]}"

    def _is_translating(self) -> bool:
        """Is a process at work already? Then the next look starts another one."""
        if self.waits:
            for each in _translating:
                each.wait()
        _translating[:] = [each for each in _translating if each.poll() is None]
        return bool(_translating)

    def _translate(self, texts: dict[str, str]) -> None:
        """Start the process that translates these."""
        job = {"unit": self.steps.name, "segments": texts, "waits": self.waits}
        silent = subprocess.DEVNULL
        try:
            process = start("soc.build_segments", job, silent, silent)
        except OSError:  # there is no room for another process: the code is interpreted
            return
        _translating.append(process)
        if self.waits:
            process.wait()
            has_come()

    def _install(self, batch: Together) -> None:
        """Use machine code from now on."""
        self.waiting = list(batch.others)
        if not batch.made:
            return
        first = self.count[0]
        self.chip.segments["code"][batch.rows, batch.begins] = batch.codes
        self.chip.segments["is_part"][batch.parts] = 1
        self.hot_code["translated"][first : first + len(batch.made)] = batch.rows
        self.count[0] = first + len(batch.made)
        self.used += batch.made


_translating: list[subprocess.Popen] = []
"""The process that translates. Nobody waits for it: what it has made serves the next run, too."""


@atexit.register
def _let_go_on() -> None:
    """Let it end its work after this process, unless that is interrupted or keeps nothing."""
    for process in [each for each in _translating if each.poll() is None]:
        if signals.received or is_temporary():
            stop(process)
        elif process.stdin:
            with suppress(OSError), process.stdin as pipe:
                pipe.write(b".")


@cache
def _steps_key(steps: Interpreter) -> str:
    """A name for the content of the steps; makes what they call known to what is loaded."""
    for link in FLOATS.links.values():
        define(PURE_SYMBOL.format(link.symbol), FLOATS.address(link.symbol))
    return key(steps)

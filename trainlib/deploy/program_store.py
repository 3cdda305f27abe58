"""Programs of steps that are kept for the next process: to plan a step takes longer than a short
training, and most runs of a network plan the one before again.

A program is known by all that it depends on: the schedule but for what its arrays hold, the chip,
the cores, measured tiles, and the sources of all that plans. The arrays are put into it when it is
recalled.
"""

import pickle
import sys
import zlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pydantic

from isa.program import Program
from soc.aot.cache_file import keep, kept
from soc.chip.spec import SocSpec
from soc.host.cache_folder import cache_folder
from soc.host.compile_process import ROOT
from soc.host.source_version import FOLDERS, version_of
from trainlib.deploy.graph.values import TooLargeError
from trainlib.deploy.program import Built
from trainlib.deploy.schedule import Schedule
from trainlib.deploy.swap import NoRoom

PROGRAMS, ANSWERS = 64, 4096
"""Programs and answers that are kept; the oldest make room."""
FAST = 1
"""The level of compression."""
GIVEN = ("schedule", "chip")
"""What a program is not kept with."""

Question = Sequence[Any]
"""All that an answer depends on besides the sources: what has the same repr is the same."""


@dataclass(frozen=True)
class ProgramStore:
    """Programs in files, and answers to what planning asks.

    folder      None: the cache folder
    programs    kept at most; 0: none
    answers     likewise
    """

    folder: Path | None = None
    programs: int = PROGRAMS
    answers: int = ANSWERS

    def answer(self, question: Question, work: Callable[[], Any]) -> Any:
        """What `work` has returned before, or a refusal that it has raised; else it works."""
        return self._recalled("answer", self.answers, question, work)

    def program(
        self, schedule: Schedule, chip: SocSpec, how: Question, build: Callable[[], Built]
    ) -> Built:
        """The program of a schedule as it was built before, with the arrays of this one, or what
        `build` makes.

        how       all else that it depends on

        raises    TooLargeError, also where that was found before; and what `build` raises
        """

        def parts() -> dict[str, Any]:
            built = build()
            program = _holding(built.program, {at: bytes(len(a)) for at, a in built.contents})
            found = {f.name: getattr(built, f.name) for f in fields(built) if f.name not in GIVEN}
            return found | {"program": program}

        question = *said_of(schedule), chip.model_dump(), *how
        found = self._recalled("program", self.programs, question, parts)
        built = Built(schedule=schedule, chip=chip, **found)
        return replace(built, program=_holding(built.program, dict(built.contents)))

    def _recalled(self, kind: str, most: int, question: Question, work: Callable[[], Any]) -> Any:
        if not most:
            return work()
        name = sha256("\0".join((_versions(), *map(repr, question))).encode()).hexdigest()
        file = (self.folder or cache_folder()) / f"{kind}-{name[:32]}"
        if (content := kept(file)) is not None:
            found, refusal = pickle.loads(zlib.decompress(content))
        else:
            found, refusal = _outcome(work)
            with suppress(OSError):
                keep(file, zlib.compress(pickle.dumps((found, refusal)), FAST), most)
        if refusal:
            raise refusal
        return found


KEEPS_NOTHING = ProgramStore(programs=0, answers=0)
"""All is planned anew."""


def said_of(schedule: Schedule) -> Question:
    """All of a schedule but what its arrays hold."""
    graph = schedule.graph
    return graph.to_json(), schedule.sections, schedule.kept, sorted(graph.arrays)


def _outcome(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What is returned, and the refusal that is raised."""
    try:
        return work(), None
    except (NoRoom, TooLargeError) as error:
        return None, error


@cache
def _versions() -> str:
    """Of all that plans. A program also has paths of sources."""
    packages = f"numpy {np.__version__}, pydantic {pydantic.VERSION}"
    return f"{version_of(FOLDERS)} {sys.version} {packages} {ROOT}"


def _holding(program: Program, pieces: Mapping[int, bytes]) -> Program:
    """A program with other data at some addresses, where it has some."""
    contents = {segment.address: bytearray(segment.data) for segment in program.segments}
    starts = sorted(contents)
    for address, data in pieces.items():
        start = starts[bisect_right(starts, address) - 1]
        contents[start][address - start : address - start + len(data)] = data
    segments = (s._replace(data=bytes(contents[s.address])) for s in program.segments)
    return replace(program, segments=tuple(segments))

"""Damaged files in worker processes: what ends them, and what takes too long, is found as well."""

import json
import os
import selectors
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 300  # seconds for a case, the compilation of another interpreter among them
CHUNK = 500  # cases of a process: what it keeps of each does not add up


WORKER = (sys.executable, "-m", "tests.fuzz.worker")


def outcomes(
    format: str, seed: int, samples: Path, numbers: range, worker: Sequence[str] = WORKER
) -> Iterator[dict[str, Any]]:
    """What came of each case, in order; "problem" is "" where all is well."""
    start = numbers.start
    while start < numbers.stop:
        end = min(start + CHUNK, numbers.stop)
        words = format, seed, samples, start, end
        for outcome in _of_a_process([*worker, *map(str, words)], start, end):
            start = outcome["number"] + 1
            yield outcome


def _of_a_process(command: list[str], start: int, end: int) -> Iterator[dict[str, Any]]:
    """Outcomes until the process ends; the last one says so if it did before its work was done."""
    number = start
    with TemporaryFile() as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            bufsize=0,
            cwd=ROOT,
        )
        try:
            for line in _lines(process):
                outcome = json.loads(line)
                number = outcome.get("begins", number)
                if "number" in outcome:
                    start = number + 1
                    yield outcome
        finally:
            process.kill()
            status = process.wait()
        if start < end:
            said.seek(0)
            text = said.read().decode("utf-8", "replace")[-3000:]
            problem = f"the process ended by {status}, or said nothing for {PATIENCE} s"
            yield {"number": number, "status": status, "problem": problem, "said": text}


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Lines as they come, until there is none for so long."""
    assert process.stdout
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(PATIENCE):
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from lines


def summary(format: str, found: list[dict[str, Any]]) -> str:
    """How many of a format were refused, ran, or were not as they should be."""
    count = Counter("refused" if o["status"] == 2 else "ran" for o in found if not o["problem"])
    problems = sum(1 for outcome in found if outcome["problem"])
    seconds = max((o.get("seconds", 0) for o in found), default=0)
    memory = max((o.get("memory", 0) for o in found), default=0) >> 20
    return (
        f"{format:8} {len(found):6} files: {count['refused']:6} refused, {count['ran']:6} ran, "
        f"{problems:4} wrong; at most {seconds:.2f} s, {memory} MB"
    )

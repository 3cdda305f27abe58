"""Damaged files of every format: a slice; `python -m tests.fuzz` is the whole."""

import json
import subprocess
import sys
from pathlib import Path

from tests.fuzz.campaign import ROOT, outcomes
from tests.fuzz.formats import FORMATS
from tests.fuzz.options import WORKING
from tests.fuzz.worker import complaint

SLICE = 12  # files of each format


def test_damaged_files_are_refused_with_a_sentence_in_2_seconds_and_512_mb(tmp_path: Path) -> None:
    for format in FORMATS.values():
        format.make_samples(tmp_path)
    words = ",".join(FORMATS), "7", str(tmp_path), "0", str(SLICE)
    command = [sys.executable, "-m", "tests.fuzz.worker", *words]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    ends = [json.loads(line) for line in run.stdout.splitlines() if "problem" in line]
    assert [end for end in ends if end["problem"]] == []
    assert (len(ends), run.stderr) == (SLICE * len(FORMATS), "")
    assert {end["format"] for end in ends if end["status"] == 2} == set(FORMATS)


def test_options_of_every_command_are_damaged(tmp_path: Path) -> None:
    """A command that is new has its working words there; all cases of all are made."""
    options = FORMATS["options"]
    options.make_samples(tmp_path)
    options.prepare(tmp_path)
    commands = {command for command, _, _ in options.cases}
    assert commands == set(WORKING) - {"sdk"}  # which takes nothing


def test_what_a_command_must_not_say_is_found() -> None:
    said = "pulpsim: x.elf: truncated\n"
    assert complaint("x.elf", 2, said) == ""
    assert complaint("x.elf", 0, "") == ""
    assert complaint("y.elf", 2, said) == "the file is not named"
    assert complaint("x.elf", 2, "") == "exit status 2 without a sentence"
    assert complaint("x.elf", 2, "Error: x.elf\n") == "exit status 2 without a sentence"
    assert complaint("x.elf", 1, "Traceback (most recent call last)") == "traceback or warning"
    assert complaint("x.elf", 139, said) == "exit status 139"
    assert complaint("x.elf", 2, said * 100) == "100 lines, the longest of 25 characters"


def test_what_ends_a_process_is_found_and_the_next_file_follows(tmp_path: Path) -> None:
    source = """
import os, sys
for number in range(int(sys.argv[4]), int(sys.argv[5])):
    print('{"begins": %d}' % number, flush=True)
    if number == 1:
        os.kill(os.getpid(), 11)
    print('{"number": %d, "problem": ""}' % number, flush=True)
"""
    script = tmp_path / "worker.py"
    script.write_text(source)
    found = list(outcomes("x", 7, tmp_path, range(3), (sys.executable, str(script))))
    assert [(o["number"], o["problem"][:26]) for o in found] == [
        (0, ""),
        (1, "the process ended by -11, "),
        (2, ""),
    ]

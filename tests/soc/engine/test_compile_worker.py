"""Which process compiles which units."""

import json
import subprocess
import sys

NAMES = [
    "dma",
    "csr",
    "run ri5cy-f rv32i",
    "run ri5cy-f-wop7 rv32i",
    "run cv32e40p-f rv32i",
    "run_hart cv32e40p-f rv32i rv32m",
    "run_hart ri5cy-f rv32i",
    "run_recording ri5cy-f rv32i",
    "superblocks ri5cy-f rv32i",
]
BATCHES = """
import json, sys
from soc.engine.compile_worker import batches  # replaces Numba's target: in a process of its own
print(json.dumps([batches(sys.argv[1:], processes) for processes in (1, 2, 8)]))
"""
FAILING = """
import os, signal
from soc.engine import compile_worker

def files(name):
    signal.pause() if name == "dma" else 1 / 0

compile_worker.files, os.cpu_count = files, lambda: 2
compile_worker.main()
"""
"""One process fails while the other one compiles, for ever."""


def test_interpreters_that_share_step_functions_are_compiled_one_after_the_other() -> None:
    command = [sys.executable, "-c", BATCHES, *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    one, two, eight = json.loads(done.stdout)
    assert (
        one
        == two
        == [
            ["run cv32e40p-f rv32i", "run ri5cy-f rv32i", "run ri5cy-f-wop7 rv32i"],
            [
                "run_hart ri5cy-f rv32i",
                "run_recording ri5cy-f rv32i",
                "run_hart cv32e40p-f rv32i rv32m",
            ],
            ["superblocks ri5cy-f rv32i"],
            ["csr"],
            ["dma"],
        ]
    )
    interpreters = [name for batch in one for name in batch if len(name) > 3]
    assert eight == [[name] for name in (*interpreters, "csr", "dma")]


def test_a_process_that_fails_ends_the_others() -> None:
    command = [sys.executable, "-c", FAILING]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdin
        process.stdin.write('["csr", "dma"]\n')
        process.stdin.flush()
        assert process.wait(timeout=60) == 1

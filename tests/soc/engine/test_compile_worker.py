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
    "run_hart ri5cy-f rv32i",
    "run_recording ri5cy-f rv32i",
    "superblocks ri5cy-f rv32i",
]
BATCHES = """
import json, sys
from soc.engine.compile_worker import batches  # replaces Numba's target: in a process of its own
print(json.dumps(batches(sys.argv[2:], int(sys.argv[1]))))
"""


def batches(processes: int) -> list[list[str]]:
    command = [sys.executable, "-c", BATCHES, str(processes), *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_interpreters_that_share_step_functions_are_compiled_one_after_the_other() -> None:
    assert (
        batches(1)
        == batches(2)
        == [
            ["run cv32e40p-f rv32i", "run ri5cy-f rv32i", "run ri5cy-f-wop7 rv32i"],
            ["run_hart ri5cy-f rv32i", "run_recording ri5cy-f rv32i"],
            ["superblocks ri5cy-f rv32i"],
            ["csr"],
            ["dma"],
        ]
    )
    assert batches(8) == [[name] for name in sorted(NAMES, key=lambda name: (len(name) < 4, name))]

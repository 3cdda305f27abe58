"""Hostile files: 100,000 mutated ELFs and 100,000 mutated sources with --full, a slice without.

python -m pytest tests/isa/test_fuzz.py --full
"""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

MEMORY = 512 << 20  # bytes of address space, the interpreter included


@pytest.mark.parametrize(("what", "slice_size"), [("elf", 1000), ("asm", 300)])
def test_a_mutated_file_is_refused_with_its_own_exception_in_2_seconds_and_512_mb(
    what, slice_size, request
):
    count = 100_000 if request.config.getoption("--full") else slice_size
    script = Path(__file__).parent / "fuzz.py"
    result = subprocess.run(
        [sys.executable, script, what, str(count), "7"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.startswith(f"{count} inputs")

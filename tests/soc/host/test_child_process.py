"""Processes that are started to compile end without a word if who started them has ended."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["soc.engine.compile_worker", "soc.jit.compile_worker"])
@pytest.mark.parametrize("part", [b"", b'["d'])
@pytest.mark.sampled
def test_an_order_that_does_not_come_whole_is_none(module: str, part: bytes) -> None:
    done = subprocess.run([sys.executable, "-m", module], input=part, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")

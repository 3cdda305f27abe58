"""What importing and decoding cost, in calls of functions: every command pays for the first."""

import random
import subprocess
import sys

from isa.extensions.profiles import profile

IMPORT = """
import sys

calls = 0

def count(frame, event, argument):
    global calls
    calls += event == "call"

sys.setprofile(count)
from isa.extensions.profiles import profile
for core in ("ri5cy", "cv32e40p"):
    for registers in ("f", "x"):
        for small in (False, True):
            profile(core, registers, small)
sys.setprofile(None)
assert not {"numba", "numpy"} & set(sys.modules)
print(calls)
"""


def test_all_profiles_take_few_calls_and_neither_numba_nor_numpy() -> None:
    """A tenth of a second, Python's own start included."""
    run = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 100_000


def test_an_instruction_that_was_not_seen_before_is_decoded_in_few_calls() -> None:
    """Ten thousand of them in a tenth of a second."""
    isa, calls = profile(), 0
    generator = random.Random(10_000)
    words = []
    while len(words) < 10_000:
        encoding = generator.choice(isa.insns).encoding
        words.append(encoding.match | generator.getrandbits(32) & ~encoding.mask)

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    isa.decode.cache_clear()
    sys.setprofile(count)
    try:
        for word in words:
            isa.decode(word)
    finally:
        sys.setprofile(None)
    assert calls < 15 * len(words)

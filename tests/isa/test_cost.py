"""What importing and decoding cost, in processor time: every command pays for the first."""

import random
import subprocess
import sys
import time

from isa.profiles import profile

IMPORT = """
import sys, time
from isa.profiles import profile
for core in ("ri5cy", "cv32e40p"):
    for registers in ("f", "x"):
        for small in (False, True):
            profile(core, registers, small)
assert not {"numba", "numpy"} & set(sys.modules)
print(time.process_time())
"""


def test_all_profiles_are_there_within_a_sixth_of_a_second():
    """The whole process, Python's own start included; without numba and numpy."""
    runs = [
        subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    assert min(float(run.stdout) for run in runs) < 0.17


def test_ten_thousand_different_instructions_decode_in_a_seventh_of_a_second():
    isa = profile()
    generator = random.Random(10_000)
    words = []
    while len(words) < 10_000:
        encoding = generator.choice(isa.insns).encoding
        words.append(encoding.match | generator.getrandbits(32) & ~encoding.mask)
    times = []
    for _ in range(3):
        isa.decode.cache_clear()
        start = time.process_time()
        for word in words:
            isa.decode(word)
        times.append(time.process_time() - start)
    assert min(times) < 0.15

"""The console: texts and numbers, as Python prints them."""

import math
import struct

import numpy as np
import pytest

from firmware.console import Console
from firmware.runtime import new_kernel, team_of
from soc.chip.spec import load_chip
from soc.run import run_program
from tests.firmware.machine import Machine

PULP = load_chip("pulp")
INTEGERS = (0, 1, -1, 9, 10, 2147483647, -2147483648, 0x12345678, -255)
FLOATS = (0.0, -0.0, 1.0, -1.0, 10.0, 100.0, 0.1, 0.5, 9.99999, 99999.5, 3.14159265, 1e10, 1e-10)
FLOATS += (65536.0, 3.4028235e38, -1.1754944e-38, 1e-45, 1.5e-42, math.inf, -math.inf, 8388607.5)


@pytest.mark.parametrize("runner", ["machine", "chip"])
def test_the_console_prints_characters_texts_and_numbers(runner):
    k = new_kernel(PULP)
    console = Console(k)
    with team_of(k, PULP, 2) as team, team.only(0), k.scope():
        kept = k.saved()
        k.li(kept, 1234567890)
        console.text("caf\u00e9: ")
        console.number(kept)
        console.character(ord(","))
        console.character(ord(" "))
        for number in (0, 7, 10, 0xFFFFFFFF):
            console.number(number)
            console.text("; ")
        char = k.saved()
        k.li(char, ord("\n"))
        console.character(char)
    functions = [symbol.name for symbol in k.build().symbols if symbol.kind == "function"]
    assert functions == ["print_text", "print_number"]
    if runner == "machine":
        text = Machine(k.build(), k.isa).run().printed.decode()
    else:
        text = run_program(k.build(), PULP, max_cycles=100_000).console
    assert text == "caf\u00e9: 1234567890, 0; 7; 10; 4294967295; \n"


def printed(method, values):
    """What a method of the console prints for each value: calls in a loop over data."""
    k = new_kernel(PULP)
    table = k.data("table", struct.pack(f"<{len(values)}I", *values))
    console = Console(k)
    with team_of(k, PULP, 1), k.scope():
        position, left, value = k.saved(3)
        k.li(position, table)
        k.li(left, len(values))
        with k.loop(left):
            k.load_post(value, 4, position)
            getattr(console, method)(value)
            console.text("\n")
    result = run_program(k.build(), PULP, max_cycles=10_000_000)
    assert (result.exit.reason, result.exit.code, result.warnings) == ("exit", 0, ())
    return result.console.splitlines()


def bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def test_numbers_have_a_sign_or_hexadecimal_digits():
    words = [value & 0xFFFFFFFF for value in INTEGERS]
    assert printed("signed", words) == [str(value) for value in INTEGERS]
    assert printed("hexadecimal", words) == [f"{value:08x}" for value in words]


def test_floats_have_five_decimals_and_an_exponent():
    exact = [struct.unpack("<f", struct.pack("<f", value))[0] for value in FLOATS]
    assert printed("float", [bits(value) for value in FLOATS]) == [
        f"{value:.5e}" for value in exact
    ]
    assert printed("float", [0x7FC00000, 0x7F800001, 0xFFC00000]) == ["nan", "nan", "-nan"]


def test_random_floats_are_printed_to_half_of_the_last_decimal():
    random = np.random.default_rng(5).integers(0, 1 << 32, 500, np.uint32)
    values = random.view(np.float32)
    finite = values[np.isfinite(values)]
    lines = printed("float", finite.view(np.uint32).tolist())
    same = 0
    for line, value in zip(lines, finite.astype(float), strict=True):
        same += line == f"{value:.5e}"
        unit = 10.0 ** (int(line.partition("e")[2]) - 5)
        assert abs(float(line) - value) <= 0.51 * unit
    assert same > 0.98 * len(finite)


def test_lines_of_cores_that_print_at_once_come_out_whole():
    k = new_kernel(PULP)
    console = Console(k)
    with team_of(k, PULP, PULP.cores) as team, k.scope():
        core, left = k.saved(2)
        k.li(left, 3)
        with k.loop(left):
            team.core(core)
            console.text("core ")
            console.number(core)
            console.character(ord("\n"))
    printed = run_program(k.build(), PULP, max_cycles=1_000_000).console
    assert sorted(printed.splitlines()) == [f"core {n}" for n in range(8) for _ in range(3)]

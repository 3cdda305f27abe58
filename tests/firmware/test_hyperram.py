"""Copies between L2 and the HyperRAM by the fabric controller, on the whole chip."""

import random

import numpy as np
import pytest

from firmware.fork import offload_of
from firmware.hyperram import LARGEST, HyperRam
from firmware.runtime import new_kernel
from soc.chip.spec import load_chip
from soc.run import run_program
from tests.firmware.kernels import refusal

ENGINES = ["compiled", "event"]
SIZE = 1 << 16


def chip_with(tmp_path, content=b""):
    (tmp_path / "before").write_bytes(content)
    fields = {"size": SIZE, "load": str(tmp_path / "before"), "save": str(tmp_path / "after")}
    return load_chip("pulp", {"hyperram": fields})


def places(start, size, line, stride):
    """Where the bytes of a copy lie on a side."""
    index = np.arange(size)
    return start + (index // line * stride + index % line if line else index)


def drawn(draw):
    """A copy: bytes, addresses, lines on none, one or both sides."""
    size, l2, ram = draw.choice([1, 2, 3, 5, 64, 257]), draw.randrange(256), draw.randrange(2048)
    line = draw.randint(1, 70)
    lines = {}
    if draw.random() < 0.5:
        lines |= {"line": line, "stride": line + draw.randrange(9)}
    if draw.random() < 0.5:
        lines |= {"l2_line": line, "l2_stride": line + draw.randrange(9)}
    return size, l2, ram, lines


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_of_all_sizes_places_and_shapes_bring_every_byte(engine, tmp_path):
    draw = random.Random(3)
    content, data = draw.randbytes(4096), draw.randbytes(1024)
    chip = chip_with(tmp_path, content)
    k = new_kernel(chip)
    source, target = k.data("source", data), k.data("target", bytes(1024))
    ram = HyperRam(k)
    expected = np.full(SIZE, 0xFF, np.uint8)
    expected[:4096] = np.frombuffer(content, np.uint8)
    copied = np.zeros(1024, np.uint8)
    given = np.frombuffer(data, np.uint8)
    with offload_of(k, chip, 1):
        ram.begin()
        for number in range(40):
            size, l2, at, lines = drawn(draw)
            there = places(at, size, lines.get("line"), lines.get("stride"))
            here = places(l2, size, lines.get("l2_line"), lines.get("l2_stride"))
            if number % 2:
                ram.to_ram(source + l2, at, size, **lines)
                expected[there] = given[here]
            else:
                ram.to_l2(target + l2, at, size, **lines)
                copied[here] = expected[there]
            ram.wait()
    result = run_program(k.build(), chip, engine=engine, max_cycles=200_000)
    assert (result.exit.reason, result.exit.code, result.warnings) == ("exit", 0, ())
    assert result.read(target, 1024) == copied.tobytes()
    assert (tmp_path / "after").read_bytes() == expected.tobytes()


def test_a_copy_takes_the_cycles_of_hyperbus_and_the_controller_sleeps_meanwhile(tmp_path):
    chip = chip_with(tmp_path)
    k = new_kernel(chip)
    place = k.buffer(k.l2, "place", 1024)
    ram = HyperRam(k)
    with offload_of(k, chip, 1):
        ram.begin()
        with k.region("copy"):
            ram.to_l2(place, 0, 1024)
            ram.wait()
    result = run_program(k.build(), chip)
    cycles = result.rows("regions")[0]["cycles"]
    assert 1090 <= cycles <= 1090 + 120
    engines = {e: run_program(k.build(), chip, engine=e).cycles for e in ENGINES}
    assert engines["event"] == engines["compiled"]


def test_sizes_and_queues_that_there_are_not_are_refused():
    k = new_kernel(load_chip("pulp"))
    ram = HyperRam(k)
    assert refusal(ram.to_l2, 0x1C010000, 0, 0) == f"hyperram: 0 bytes; a copy has 1 to {LARGEST}"
    assert refusal(HyperRam, k, 8) == "hyperram: queue 8; there are 0 to 7"

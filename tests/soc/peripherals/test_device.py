"""Components of the user's own: registers, events, ports into L1, and when their code is run."""

import os
import re

import numpy as np
import pytest

import pulpsim as ps
from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.chip.spec import SocSpec, load_chip
from soc.config.toml import ConfigError
from soc.run import ENGINES, run_program
from soc.trace.reader import Trace
from soc.trace.recorder import Recording

CODE = """
from soc.peripherals.device import Device, Register, loads, stores

class Own(Device):
    REGISTERS = (Register("START", 0x0, ""), Register("SUM", 0x4, ""), Register("PLACE", 0x8, ""))

    @stores("START")
    def _start(self, name, index, value):
        self.process(self.add(value))

    def add(self, count):
        words = yield from self.read_l1(self.word("PLACE"), count)
        yield from self.write_l1(self.word("PLACE"), words + 1, port=1)
        self.put("SUM", 0, int(words.sum()))
        data = yield from self.read_l2(0x1C000000, 8)
        yield from self.write_l2(0x1C100000, data[::-1])
        self.event(1)
        self.interrupt(29)
        self.soc_event(7)
"""
TABLE = """base = "pulp"
[[device]]
name = "own"
module = "own.py:Own"
ports = 2
"""
BASE = 0x10201000


@pytest.fixture
def chip_file(tmp_path):
    (tmp_path / "own.py").write_text(CODE)
    (tmp_path / "own.py").chmod(0o600)
    (tmp_path / "chip.toml").write_text(TABLE)
    return tmp_path / "chip.toml"


def adder(chip, count, loads, cores=1):
    """Core 0 starts the device and sleeps until its event; all load from L1 beside it."""
    k = ps.new_kernel(chip)
    words = k.buffer(k.l1, "words", 4 * count)
    k.put(words, np.arange(count, dtype=np.int32).tobytes())
    with ps.team_of(k, chip, cores) as team:
        own, unit, value, place, times = k.x(5)
        k.li(own, BASE)
        k.li(place, words)
        with team.only(0):
            k.li(unit, 0x10204000)
            k.li(value, 1 << 13)
            k.sw(value, 0x08, unit)
            k.sw(place, 8, own)
            k.li(value, count)
            k.sw(value, 0, own)
        if loads:
            k.li(times, loads)
            with k.loop(times):
                for _ in range(8):
                    k.lw(value, 4, place)
        with team.only(0):
            k.p_elw(value, 0x3C, unit)
            k.lw(value, 4, own)
            k.sw(value, 0, place)
    return k.build(), words


@pytest.mark.parametrize(("loads", "cores"), [(0, 1), (20, 1), (20, 8)])
def test_a_device_does_the_same_in_both_engines(loads, cores, chip_file):
    chip = load_chip(str(chip_file))
    program, words = adder(chip, 64, loads, cores)
    results = [run_program(program, chip, engine=engine) for engine in ENGINES]
    for result in results:
        assert result.exit.code == 0
        found = np.frombuffer(result.read(words, 256), np.int32)
        assert found.tolist() == [sum(range(64)), *range(2, 65)]
        start = result.read(0x1C000000, 8)
        assert result.read(0x1C100000, 8) == start[::-1]
    assert results[0].cycles == results[1].cycles
    assert results[0].warnings == results[1].warnings == ()


def test_traces_name_its_ports_and_have_its_accesses(chip_file, tmp_path):
    chip = load_chip(str(chip_file))
    program, _ = adder(chip, 64, 20)
    for engine in ENGINES:
        run_program(program, chip, engine=engine, trace=Recording(tmp_path / engine))
    traces = [Trace.open(tmp_path / engine) for engine in ENGINES]
    assert traces[0].initiators[-2:] == ["own0", "own1"]
    assert (tmp_path / ENGINES[0]).read_bytes()[-4096:] == (tmp_path / ENGINES[1]).read_bytes()[
        -4096:
    ]


def refused(chip, why):
    k = ps.new_kernel(load_chip("pulp"))
    with ps.team_of(k, load_chip("pulp"), 1):
        pass
    program = k.build()
    with pytest.raises(ConfigError, match=f"^device 'own': {why}"):
        run_program(program, chip)


def test_code_is_run_only_if_a_chip_file_names_it(chip_file):
    chip = load_chip(str(chip_file))
    recorded = SocSpec.model_validate(chip.model_dump(mode="json"))
    refused(recorded, "its code is run only if a chip file names it, not for a trace")
    table = {"name": "own", "module": str(chip_file.parent / "own.py") + ":Own"}
    refused(load_chip("pulp", {"device": [table]}), "its code is run only if a chip file names it")


@pytest.mark.parametrize("mode", [0o602, 0o606, 0o622])
def test_code_that_others_may_write_is_not_run(mode, chip_file):
    file = chip_file.parent / "own.py"
    if mode & 0o020:
        try:
            os.chown(file, -1, 1)
        except PermissionError:
            pytest.skip("another group's file can only be made by root")
    file.chmod(mode)
    why = re.escape(f"{file} may be written by others: its code is not run (chmod go-w)")
    refused(load_chip(str(chip_file)), why)


def test_code_of_another_user_is_not_run(chip_file, monkeypatch):
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    file = re.escape(str(chip_file.parent / "own.py"))
    refused(load_chip(str(chip_file)), f"{file} belongs to another user: its code is not run$")


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("own.py", 'module must be a file and a class: "mine.py:Engine"$'),
        ("none.py:Own", ".*none.py: No such file or directory$"),
        ("own.py:Other", ".*own.py has no class Other derived from"),
        ("broken.py:Own", ".*broken.py: ZeroDivisionError: division by zero$"),
        (".:Own", ".*: Is a directory$"),
    ],
)
def test_modules_that_cannot_be_run_are_told(module, why, chip_file):
    broken = chip_file.parent / "broken.py"
    broken.write_text("1 / 0")
    broken.chmod(0o600)
    chip_file.write_text(TABLE.replace("own.py:Own", module))
    refused(load_chip(str(chip_file)), why)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("base = 0x10200400", "device 'own' 0x10200400 overlaps cluster_timer 0x10200400"),
        ("base = 0x1C000000", "device 'own' 0x1c000000: outside of the registers of cluster"),
        ("ports = 17", "must be less than or equal to 16"),
    ],
)
def test_windows_that_overlap_others_are_refused(line, rule, chip_file):
    text = TABLE.replace("ports = 2\n", "") if "ports" in line else TABLE
    chip_file.write_text(f"{text}{line}\n")
    with pytest.raises(ConfigError, match=re.escape(rule)):
        load_chip(str(chip_file))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("data[::-1]", "data[9]", r"IndexError: index out of range \(own.py:16, in add\)"),
        (
            'self.word("PLACE"), count',
            "0, count",
            r"ValueError: own: 0x00000000 is outside of L1 .*",
        ),
        (
            "self.process(self.add(value))",
            "value // 0",
            r"ZeroDivisionError: .* \(own.py:9, in _start\)",
        ),
        ("    REGISTERS", "    def __init__(self, p): p.x\n    REGISTERS", "AttributeError: .*"),
    ],
)
def test_what_goes_wrong_in_a_device_ends_the_run_with_a_sentence(engine, old, new, why, chip_file):
    text = CODE.replace(old, new, 1)
    assert text != CODE
    (chip_file.parent / "own.py").write_text(text)
    chip = load_chip(str(chip_file))
    result = run_program(adder(chip, 16, 0)[0], chip, engine=engine)
    assert result.exit.reason == "trap"
    assert re.fullmatch(rf"cycle \d+: device own: {why}", result.exit.message)


PATCHER = """
from soc.peripherals.device import Device, Register, stores

class Own(Device):
    REGISTERS = (Register("START", 0x0, ""), Register("DONE", 0x4, ""))

    @stores("START")
    def _start(self, name, index, value):
        self.process(self.patch(value))

    def patch(self, address):
        yield from self.write_l2(address, bytes.fromhex("13050501"))  # addi a0, a0, 16
        self.put("DONE", 0, 1)
"""
PATCHED = """
_start:
    li s0, 0x10201000
    li a0, 0
    jal ra, patched
    la t0, patched
    sw t0, 0(s0)
wait:
    lw t1, 4(s0)
    beqz t1, wait
    fence.i
    jal ra, patched
    li t0, 0x1A1040A0
    li t1, 0x80000000
    or t1, t1, a0
    sw t1, 0(t0)
    wfi
    .balign 4
patched:
    addi a0, a0, 1
    jalr zero, 0(ra)
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_code_that_a_device_writes_is_executed_after_a_fence(engine, chip_file):
    (chip_file.parent / "own.py").write_text(PATCHER)
    program = assemble(PATCHED, profile("ri5cy", "x"))
    result = run_program(program, load_chip(str(chip_file)), engine=engine, max_cycles=10_000)
    assert (result.exit.reason, result.exit.code) == ("exit", 17)

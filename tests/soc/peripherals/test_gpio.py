"""The GPIO alone, and through PULP's register map as firmware uses it."""

import pytest
from simpy import Environment

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.address_map.registers import GPIO
from soc.chip.spec import load_chip
from soc.peripherals.gpio import NOTICED, SAMPLED, Gpio
from soc.run import run_program

WORD = 0xFFFFFFFF


class Bench:
    """A GPIO that logs the cycles of its events."""

    def __init__(self, is_looped: bool = True):
        self.env, self.events, self.warnings = Environment(), [], []
        self.gpio = Gpio(
            self.env, self.warnings.append, lambda: self.events.append(self.env.now), is_looped
        )

    def store(self, name: str, value: int, bank: int = 0) -> None:
        self.gpio.write(GPIO.offset(name, bank), value, 4)

    def load(self, name: str, bank: int = 0) -> int:
        return self.gpio.read(GPIO.offset(name, bank), 4)

    def wait(self, cycles: int = SAMPLED + 1) -> None:
        self.env.run(until=self.env.now + cycles)


def test_the_map_is_that_of_version_3():
    offsets = {register.name: register.offset for register in GPIO.registers}
    assert offsets["DIRECTION"] == 0
    assert offsets["IN"] == 8
    assert offsets["OUT"] == 0xC
    assert offsets["INTERRUPT_STATUS"] == 0x24
    assert GPIO.offset("DIRECTION", 1) == 0x38
    assert GPIO.offset("PAD_CONFIG_3", 1) == 0x6C


@pytest.mark.parametrize("bank", [0, 1])
def test_inputs_see_the_outputs_that_they_are_wired_to(bank: int):
    """What regression_tests' all_GPIOs does."""
    bench = Bench()
    bench.store("DIRECTION", 0x0000FFFF, bank)
    bench.store("ENABLE", 0xFFFF0000, bank)
    for value in (0xFFFF, 0x1234, 0):
        bench.store("OUT", value, bank)
        bench.wait()
        assert bench.load("IN", bank) == value << 16
    assert bench.load("IN", 1 - bank) == 0


def test_a_pin_without_a_wire_sees_only_itself():
    bench = Bench(is_looped=False)
    bench.store("DIRECTION", 0b11)
    bench.store("ENABLE", WORD)
    bench.store("OUT", 0b101)
    bench.wait()
    assert bench.load("IN") == 0b001


def test_levels_that_are_not_sampled_stay_as_they_were():
    bench = Bench()
    bench.store("DIRECTION", 1)
    bench.store("ENABLE", 1 << 16)
    bench.store("OUT", 1)
    bench.wait()
    bench.store("ENABLE", 0)
    bench.store("OUT", 0)
    bench.wait()
    assert bench.load("IN") == 1 << 16
    bench.store("ENABLE", 1 << 16)
    bench.wait()
    assert bench.load("IN") == 0


def test_an_edge_is_noticed_a_cycle_before_its_level_is_seen():
    bench = Bench(is_looped=False)
    bench.store("DIRECTION", 1)
    bench.store("ENABLE", 1)
    bench.store("EDGES_LOW", 1)
    bench.store("INTERRUPT_ENABLE", 1)
    bench.wait()
    bench.store("OUT", 1)
    started = bench.env.now
    bench.wait(SAMPLED - 0.5)
    assert bench.load("IN") == 0
    bench.wait(1)
    assert bench.load("IN") == 1
    assert bench.events == [started + NOTICED]


def test_four_pins_share_the_clock_of_their_inputs_but_not_their_edges():
    bench = Bench()
    bench.store("DIRECTION", 0xFF)
    bench.store("ENABLE", 1 << 16)
    bench.store("INTERRUPT_ENABLE", WORD)
    bench.store("EDGES_HIGH", 0x5555)
    bench.store("OUT", 0xFE)
    bench.wait()
    assert bench.load("IN") == 0xE << 16
    assert bench.load("INTERRUPT_STATUS") == 0
    assert bench.events == []


def test_set_and_clear_change_single_pins():
    bench = Bench()
    bench.store("OUT", 0b1100)
    bench.store("OUT_SET", 0b0011)
    bench.store("OUT_CLEAR", 0b0100)
    assert bench.load("OUT") == 0b1011
    assert bench.load("OUT_SET") == 0
    bench.store("IN", WORD)
    assert bench.load("IN") == 0


def test_edges_of_chosen_pins_are_events():
    bench = Bench()
    bench.store("DIRECTION", 0xFFFF)
    bench.store("ENABLE", 0xFFFF0000)
    bench.store("EDGES_HIGH", 0b10_01_00)  # pin 16 falling, 17 rising, 18 both, ...
    bench.store("INTERRUPT_ENABLE", 0b0111 << 16)
    bench.store("OUT", 0b1111)
    bench.wait()
    assert bench.load("INTERRUPT_STATUS") == 0b110 << 16
    assert bench.load("INTERRUPT_STATUS") == 0, "a load clears it"
    bench.store("OUT", 0)
    bench.wait()
    assert bench.load("INTERRUPT_STATUS") == 0b101 << 16
    assert bench.events == [NOTICED, SAMPLED + 1 + NOTICED]
    assert not bench.warnings


FIRMWARE = """
_start:
    li a0, 0x1A101000
    li a1, 0xFFFF
    sw a1, 0x00(a0)          # outputs: pins 0 to 15
    slli a2, a1, 16
    sw a2, 0x04(a0)          # sample the others
    li a3, 0x20000
    sw a3, 0x18(a0)          # pin 17 tells
    li a3, 4
    sw a3, 0x20(a0)          # of rising edges
    li a1, 0x5A5A
    sw a1, 0x0C(a0)
poll:
    lw a4, 0x08(a0)
    beqz a4, poll
    srli a4, a4, 16
    sub a4, a4, a1           # 0: IN is OUT, wired
    lw a5, 0x24(a0)          # 2 << 16
    srli a5, a5, 16
    li a6, 0x1A109800
    lw a7, 0x0C(a6)          # STATUS: line 15
    srli a7, a7, 15
    andi a7, a7, 1
    slli a7, a7, 4
    add a4, a4, a5
    add a4, a4, a7
    li t0, 0x1A104000
    lui t1, 0x80000
    or a4, a4, t1
    sw a4, 0xA0(t0)
    wfi
"""


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_firmware_finds_wires_edges_and_the_line(engine: str):
    chip = load_chip("pulp", {"gpio.loopback": True})
    result = run_program(assemble(FIRMWARE, profile("ri5cy", "x")), chip=chip, engine=engine)
    assert result.exit.code == 2 | 1 << 4, result.exit.message
    assert not result.warnings

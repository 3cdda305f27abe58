"""Boot, team, barrier, exit: on the chip, and without time."""

import numpy as np
import pytest

from firmware.builder import EQ
from firmware.console import Console
from firmware.registers import SP
from firmware.runtime import CODE, address_of, exit_, new_kernel, team_of
from isa.assembler.names import CSRS
from isa.program import Program
from soc.chip.spec import load_chip
from soc.run import run_program
from tests.firmware.kernels import refusal
from tests.firmware.machine import L2, PATTERN, Machine

CHIPS = ("pulp", "pulp-cv32e40p")
PULP = load_chip("pulp")


def test_addresses_are_those_of_the_platform():
    assert address_of("event_unit", "BARRIER_TRIGGER_WAIT_CLEAR") == 0x1020421C
    assert address_of("cluster_control", "BOOT_ADDRESS", 7) == 0x1020005C
    assert address_of("cluster_icache", "ENABLE") == 0x10201400
    assert address_of("fabric_icache", "ENABLE") == 0x1A108800
    assert address_of("soc_control", "CORE_STATUS") == 0x1A1040A0
    assert address_of("stdout", "PUT") == 0x1A10F000


def stacks_and_cores(k, chip, cores):
    """Each core writes its stack pointer and, after a barrier, the sum of all to its own place."""
    places = k.buffer(k.l2, "places", 8 * cores)
    with team_of(k, chip, cores) as team, k.scope():
        core, place, total, value = k.x(4)
        team.core(core)
        k.slli(place, core, 2)
        k.li(total, places)
        k.add(place, place, total)
        k.sw(SP, 0, place)
        team.barrier()
        k.li(total, 0)
        k.li(value, places)
        with k.loop(cores):
            k.load_post(core, 4, value)
            k.add(total, total, core)
        k.sw(total, 4 * cores, place)
    return places


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_every_core_of_a_team_has_its_stack_and_waits_for_the_others(chip, cores):
    spec = load_chip(chip)
    k = new_kernel(spec)
    places = stacks_and_cores(k, spec, cores)
    machine = Machine(k.build(), k.isa).run()
    assert machine.code == 0
    words = [int.from_bytes(machine.read(places + 4 * n, 4), "little") for n in range(2 * cores)]
    stacks = [0x10010000 - 1024 * core for core in range(cores)]
    assert words == stacks + [sum(stacks) & 0xFFFFFFFF] * cores
    assert machine.read(places + 8 * cores, 64) == bytes([PATTERN]) * 64


def test_the_chip_runs_a_team_as_the_machine_without_time_does():
    k = new_kernel(PULP)
    places = stacks_and_cores(k, PULP, 8)
    machine = Machine(k.build(), k.isa).run()
    result = run_program(k.build(), PULP, max_cycles=100_000)
    assert (result.exit.reason, result.exit.code) == ("exit", 0)
    assert result.warnings == ()
    assert result.read(places, 64) == machine.read(places, 64)
    retired = [hart["instructions"] for hart in result.to_json()["harts"]]
    assert retired[:8] == [machine.retired[core] for core in range(8)]


def test_stacks_may_end_anywhere_in_a_page():
    chip = load_chip("pulp", {"l1.size": 0x10600})  # 0x10010000 is on the stack of core 1
    k = new_kernel(chip)
    places = stacks_and_cores(k, chip, 8)
    result = run_program(k.build(), chip, max_cycles=100_000)
    assert (result.exit.reason, result.exit.code) == ("exit", 0)
    tops = np.frombuffer(result.read(places, 32), np.uint32)
    assert tops.tolist() == [0x10010600 - 1024 * core for core in range(8)]


def test_one_core_of_the_team_runs_alone():
    k = new_kernel(PULP)
    place = k.buffer(k.l2, "place", 8)
    with team_of(k, PULP, 4) as team, k.scope():
        address, value = k.x(2)
        for slot, number in enumerate((0, 3)):
            with team.only(number):
                k.csrr(value, CSRS["mhartid"])
                k.addi(value, value, 40)
                k.li(address, place)
                k.sw(value, 4 * slot, address)
    machine = Machine(k.build(), k.isa).run()
    assert machine.read(place, 8) == bytes([40, 0, 0, 0, 43, 0, 0, 0])


@pytest.mark.parametrize("is_register", [False, True])
@pytest.mark.parametrize("code", [0, 1, 77, 0x7FFFFFFF])
def test_a_program_exits_with_its_code(code, is_register):
    k = new_kernel(PULP)
    value = k.x()
    k.li(value, code)
    exit_(k, value if is_register else code)
    assert run_program(k.build(), PULP, max_cycles=1000).exit.code == code


def test_the_fabric_controller_starts_at_the_entry_with_a_stack_of_its_own():
    k = new_kernel(PULP)
    with team_of(k, PULP, 2):
        k.nop()
    program = k.build()
    assert program.entry == 0x1C010080 == program.symbol("_start").address
    assert program.symbol("cluster_start").address > program.entry
    machine = Machine(program, k.isa).run()
    assert machine.harts[0].x[SP.number] == L2 + 0x8000
    assert machine.boot == dict.fromkeys(range(2), program.symbol("cluster_start").address)


def test_programs_survive_their_elf_files():
    k = new_kernel(PULP)
    with team_of(k, PULP, 8) as team, team.only(0):
        Console(k).text("from an ELF file\n")
    program = Program.from_elf(k.build().to_elf())
    result = run_program(program, PULP, max_cycles=100_000)
    assert (result.exit.code, result.console) == (0, "from an ELF file\n")


def test_registers_taken_before_a_team_are_not_those_of_its_start():
    k = new_kernel(PULP)
    with team_of(k, PULP, 1) as team:
        assert k.registers.live == set()
        with k.scope():
            number = k.x()
            team.core(number)
            with k.if_(EQ, number, number):
                k.nop()
        assert k.registers.live == set()


def test_chips_that_cannot_run_programs_are_refused():
    assert refusal(new_kernel, load_chip("ri5cy-rtl"), "p") == (
        "p: the chip ri5cy-rtl is a test bench without PULP's peripherals"
    )
    small = load_chip("pulp", {"l1.size": 0x2000})
    assert refusal(new_kernel, small, "p") == (
        "p: l1.size 8192 and l2.size 2097152 leave no room after 8192 bytes of stacks in L1 and "
        "131072 bytes of code in L2"
    )
    full = PULP.l2.size
    assert refusal(new_kernel, PULP, "p", code=full) == (
        f"p: l1.size 65536 and l2.size {full} leave no room after 8192 bytes of stacks in L1 and "
        f"{full + 0x10100} bytes of code in L2"
    )
    k = new_kernel(PULP, "p")
    for cores in (0, 9):
        message = f"p: {cores} cores; the chip pulp has 1 to 8"
        assert refusal(team_of(k, PULP, cores).__enter__) == message


@pytest.mark.parametrize("code", [1024, 3 * CODE + 1])
def test_data_lie_after_as_much_code_as_is_wanted(code):
    k = new_kernel(PULP, "p", code=code)
    assert k.code_at.base == new_kernel(PULP).code_at.base
    assert k.code_at.base + code <= k.l2.base < k.code_at.base + code + 256
    assert k.l2.base + k.l2.size == PULP.l2.base + PULP.l2.size
    with team_of(k, PULP, 2):
        there = k.data("there", b"data")
    assert run_program(k.build(), PULP).read(there, 4) == b"data"


def test_floats_live_where_the_chip_says():
    assert new_kernel(load_chip("pulp")).float_file == "x"
    assert new_kernel(load_chip("pulp", {"core.float_registers": "f"})).float_file == "f"

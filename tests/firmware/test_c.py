"""Programs in C against the runtime of firmware/c: its calls, its constants, its example."""

import math
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from firmware import stacks
from firmware.platform import DMA_EVENT, EVENT_UNIT, SOFTWARE_EVENT, WAITED_FOR, address_of
from isa.program import Program
from soc import simulation
from soc.chip.spec import load_chip
from soc.run import ENGINES, run_program
from tests.firmware.test_console import FLOATS

ROOT = Path(__file__).parents[2]
SDK = ROOT / "firmware" / "c"
EXAMPLES = ROOT / "examples" / "c"
HERE = Path(__file__).parent / "c"
GCC = "riscv64-unknown-elf-gcc"
TARGET = ("-march=rv32imf_zicsr", "-mabi=ilp32f", "-ffreestanding", "-nostdlib", "-Wall", "-Werror")

needs_compiler = pytest.mark.skipif(
    not shutil.which(GCC), reason="gcc-riscv64-unknown-elf is not installed"
)


def compiled(source, folder, *options):
    elf = folder / f"{source.stem}.elf"
    sources = (SDK / "crt0.S", SDK / "pulp.c", source)
    script = (f"-T{SDK / 'link.ld'}", "-Wl,--no-warn-rwx-segments")
    command = (GCC, *TARGET, f"-I{SDK}", *script, *options, *sources, "-lgcc", "-o", elf)
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    return elf


def run(elf, chip="pulp", cycles=2_000_000):
    result = run_program(elf, chip, max_cycles=cycles)
    assert result.warnings == ()
    return result.exit.reason, result.exit.code, result.console


@needs_compiler
@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_the_example_adds_up_on_all_cores(tmp_path):
    subprocess.run(["make", "-C", EXAMPLES, f"OUT={tmp_path}"], check=True, capture_output=True)
    sums = sum((i % 7 - 3) * (i % 5 - 1) for i in range(8192))
    assert run(tmp_path / "dot.elf") == ("exit", 0, f"x . y = {sums}\n")
    assert Program.from_elf(tmp_path / "dot.elf").regions == {0: "sum"}


@needs_compiler
@pytest.mark.parametrize("level", ["-O0", "-O2", "-Os"])
def test_every_call_does_what_it_says(level, tmp_path):
    reason, code, text = run(compiled(HERE / "calls.c", tmp_path, level))
    counts = [0] * 8
    for cores in (1, 2, 4, 8):
        length = -(-21 // cores)
        for core in range(cores):
            counts[core] += sum(range(min(core * length, 21), min((core + 1) * length, 21)))
    back = [0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 13, 14, 15, 16, 0, 0, 0]
    assert text.splitlines() == [
        f"{10 * 15} {' '.join(map(str, counts))}",
        f"back {' '.join(map(str, back))}",
        "-2147483648 4294967295 89abcdef 16 none left",
    ]
    assert (reason, code) == ("exit", 49)


@needs_compiler
@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("is_library_known", [False, True])
def test_blocks_are_copied_filled_and_compared_at_every_level(level, is_library_known, tmp_path):
    known = ("-fbuiltin", "-ftree-loop-distribute-patterns") if is_library_known else ()
    elf = compiled(HERE / "blocks.c", tmp_path, level, *known)
    assert run(elf, cycles=100_000)[:2] == ("exit", 0)


@needs_compiler
def test_uart_and_console_print_the_same_and_the_uart_receives(tmp_path):
    (tmp_path / "typed").write_bytes(b"typed, and more")
    chip = load_chip("pulp", {"uart.source": str(tmp_path / "typed")})
    elf = compiled(HERE / "uart.c", tmp_path, "-O2")
    results = [run_program(elf, chip, engine=name, max_cycles=200_000) for name in ENGINES]
    assert results[0].console == "Hello, UART!\nHello, UART!\ntyped"
    assert results[0].cycles == results[1].cycles
    assert results[0].warnings == results[1].warnings
    assert re.fullmatch(r"soc_events: event 1 is lost: 3 of it wait", "".join(results[0].warnings))


@needs_compiler
@pytest.mark.parametrize("engine", ENGINES)
def test_cores_that_print_at_once_print_whole_lines(tmp_path, engine):
    elf = compiled(HERE / "lines.c", tmp_path, "-O2")
    lines = run_program(elf, "pulp", engine=engine, max_cycles=100_000).console.splitlines()
    expected = [f"core {core}, line {line}" for core in range(8) for line in range(3)]
    assert sorted(lines[:-1]) == expected
    assert lines[-1] == "done"


@needs_compiler
def test_an_eeprom_is_written_and_read_as_pulp_s_driver_does(tmp_path):
    saved = tmp_path / "saved"
    fields = {"size": 1 << 17, "write_time": 20_000, "save": str(saved)}
    chip = load_chip("pulp", {f"eeprom_1.{name}": value for name, value in fields.items()})
    elf = compiled(HERE / "i2c.c", tmp_path, "-O2")
    results = [run_program(elf, chip, engine=name, max_cycles=400_000) for name in ENGINES]
    for result in results:
        assert (result.exit.reason, result.exit.code) == ("exit", 0)
        assert result.console == "ca 01 de ca\n"
        assert result.warnings == ()
    assert results[0].cycles == results[1].cycles
    assert saved.read_bytes() == b"\xca\x01\xde\xca".ljust(1 << 17, b"\xff")


@needs_compiler
def test_what_pulp_s_runtime_does_from_boot_to_exit(tmp_path):
    elf = tmp_path / "boot.elf"
    place = ("-Wl,--no-warn-rwx-segments", "-Wl,--section-start=.init=0x1C008000")
    options = ("-O2", "-fno-tree-loop-distribute-patterns", "-fno-toplevel-reorder")
    where = ("-Wl,-Ttext=0x1C008200", "-Wl,-Tdata=0x1C010000", HERE / "boot.c")
    command = (GCC, *TARGET, *options, *place, *where, "-lgcc", "-o", elf)
    subprocess.run([str(part) for part in command], check=True, capture_output=True)

    results = [run_program(elf, "pulp", engine=name, max_cycles=400_000) for name in ENGINES]

    lines = [f"core {core}, line {line}" for core in range(8) for line in range(4)]
    for result in results:
        assert (result.exit.reason, result.exit.code) == ("exit", 0)
        assert sorted(result.console.splitlines()) == [*lines, "up", "up"]
    assert results[0].cycles == results[1].cycles


@needs_compiler
def test_floats_are_printed_as_the_emitted_code_prints_them(tmp_path):
    finite = [value for value in FLOATS if math.isfinite(value)]
    floats = ", ".join(f"{value!r}f" for value in finite)
    given = f'-DFLOATS={floats}, __builtin_inff(), -__builtin_inff(), __builtin_nanf("")'
    lines = run(compiled(HERE / "floats.c", tmp_path, "-O2", given))[2].splitlines()
    assert lines == [*(f"{np.float32(value):.5e}" for value in finite), "inf", "-inf", "nan"]


@needs_compiler
@pytest.mark.parametrize(
    ("diver", "depth", "text", "code"),
    [(3, 5, "done\n", 0), (3, 70, "stack overflow on core 3\n", 0x53), (0, 70, None, 0x53)],
)
def test_chips_tell_of_stacks_that_overflow_once_work_ends(
    diver, depth, text, code, tmp_path, monkeypatch
):
    monkeypatch.setattr(simulation, "know_stacks", lambda chip, program: None)
    elf = compiled(HERE / "deep.c", tmp_path, "-O1", f"-DDIVER={diver}", f"-DDEPTH={depth}")
    reason, status, console = run(elf)
    assert (reason, status) == ("exit", code)
    assert console == (text or "stack overflow on core 0\n")


FRAMES = ("-O1", "-g", "-DFRAME=184", "-DDIVER=3")


@needs_compiler
@pytest.mark.parametrize("engine", ENGINES)
def test_a_frame_beyond_its_stack_ends_the_run_before_anything_is_stored(engine, tmp_path):
    elf = compiled(HERE / "deep.c", tmp_path, *FRAMES, "-DDEPTH=20")
    end = run_program(elf, engine=engine, max_cycles=100_000).exit
    assert end.reason == "trap"
    assert re.fullmatch(
        r"cycle \d+, hart 3, pc 0x1c01\w{4} in deep at \S*deep\.c:\d+ \(addi sp, sp, -\d+\): stack "
        r"overflow: sp 0x1000e\w{3} is below its stack 0x1000f000\.\.0x1000f400, 1024 bytes; "
        r"to double it: -Wl,--defsym=__core_stack_size=2048 in C, "
        r"new_kernel\(chip, stack=2048\) in Python",
        end.message,
    )


@needs_compiler
def test_stacks_are_as_large_as_the_linker_is_told(tmp_path):
    larger = "-Wl,--defsym=__core_stack_size=5120"
    assert run(compiled(HERE / "deep.c", tmp_path, *FRAMES, "-DDEPTH=20", larger))[:2] == (
        "exit",
        0,
    )


@needs_compiler
def test_stacks_may_end_anywhere_in_a_page(tmp_path):
    chip = load_chip("pulp", {"l1.size": 0x10600})
    elf = compiled(HERE / "calls.c", tmp_path, "-O2", "-Wl,--defsym=__l1_size=0x10600")
    assert run(elf, chip)[:2] == ("exit", 49)


@needs_compiler
def test_cv32e40p_has_event_loads_of_its_own(tmp_path, request):
    if not request.config.getoption("--full"):
        pytest.skip("--full compiles the other cores")
    elf = compiled(HERE / "calls.c", tmp_path, "-O2", "-DPULP_CV32E40P")
    assert run(elf, load_chip("pulp-cv32e40p"))[:2] == ("exit", 49)


def test_the_header_s_constants_are_the_platform_s():
    lines = re.findall(r"^#define PULP_(\w+) (0x\w+|\d+)", (SDK / "pulp.h").read_text(), re.M)
    constants = {name: int(value, 0) for name, value in lines}
    blocks = {
        "EVENT_UNIT": ("event_unit", "MASK"),
        "DMA": ("dma", "COMMAND"),
        "EVENT_UNIT_SHARED": ("event_unit_shared", "CORE_MASK"),
        "CLUSTER_CONTROL": ("cluster_control", "END"),
        "CLUSTER_ICACHE": ("cluster_icache", "ENABLE"),
        "FABRIC_ICACHE": ("fabric_icache", "ENABLE"),
        "CONTROLLER_EVENTS": ("interrupt_controller", "MASK"),
        "SOC_CONTROL": ("soc_control", "INFO"),
        "STDOUT": ("stdout", "PUT"),
    }
    bases = {name: address_of(*place) for name, place in blocks.items()}
    event_unit = ["MASK", "WAIT_CLEAR", "DISPATCH", "DISPATCH_TEAM", "MUTEX"]
    event_unit += ["BARRIER_TRIGGER_MASK", "BARRIER_TARGET_MASK"]
    offsets = {name: address_of("event_unit", name) - EVENT_UNIT for name in event_unit}
    offsets["BARRIER_WAIT"] = address_of("event_unit", "BARRIER_TRIGGER_WAIT_CLEAR") - EVENT_UNIT
    offsets["DMA_STATUS"] = address_of("dma", "STATUS") - bases["DMA"]
    offsets["SW_EVENT"] = address_of("event_unit_shared", "SW_EVENT") - bases["EVENT_UNIT_SHARED"]
    for block, region, names in (
        ("CLUSTER_CONTROL", "cluster_control", ("FETCH_ENABLE", "BOOT_ADDRESS")),
        ("CONTROLLER_EVENTS", "interrupt_controller", ("MASK_SET", "STATUS_SET", "STATUS_CLEAR")),
        ("SOC_CONTROL", "soc_control", ("CORE_STATUS",)),
    ):
        offsets |= {name: address_of(region, name) - bases[block] for name in names}
    others = {
        "SOFTWARE_EVENT": SOFTWARE_EVENT,
        "DMA_EVENT": DMA_EVENT,
        "WAITED_FOR": WAITED_FOR,
        "STACK_PATTERN": stacks.PATTERN,
        "STACK_ZONE": stacks.PATTERN_SIZE,
        "STACK_OVERFLOW": stacks.OVERFLOW,
    }
    assert constants == bases | offsets | others

"""Constants, loads and stores, data, regions, and the program that comes out."""

import re
import struct
import subprocess
import sys

import numpy as np
import pytest

from firmware.arena import Arena
from firmware.builder import POISON, Kernel, KernelError
from firmware.registers import A, T
from firmware.runtime import exit_
from isa.assembler.disasm import disassemble
from isa.assembler.names import CSRS
from isa.extensions.profiles import profile
from isa.program import Program
from tests.firmware.kernels import PROFILES, new_kernel, refusal, returned, words
from tests.firmware.machine import MSTATUS_FS, Machine

CONSTANTS = (0, 1, -1, 2047, 2048, -2048, -2049, 4095, 0x800, 0xFFF, 0x12345678, 0x7FFFFFFF)
CONSTANTS += (-0x80000000, 0x80000000, 0xFFFFFFFF, 0xFFFFF800, 0x10204000, 0x7FFFF800)


@pytest.mark.parametrize("value", CONSTANTS)
def test_constants_take_one_instruction_or_two(value):
    k = new_kernel()
    rd = k.x()
    k.li(rd, value)
    short = -2048 <= value < 2048 or value & 0xFFF == 0 or 0xFFFFF800 <= value
    assert len(words(k)) == 1 if short else 2
    assert returned(k, rd) == value & 0x7FFFFFFF


@pytest.mark.parametrize("value", [0, 5, -5, 2047, -2048, 2048, 4094, -4096, 4095, -4097, 1 << 20])
@pytest.mark.parametrize("is_same", [False, True])
def test_constants_of_any_size_are_added(value, is_same):
    k = new_kernel()
    rs1, rd, scratch = k.x(3)
    rd = rs1 if is_same else rd
    k.li(rs1, 100000)
    before = len(words(k))
    k.add_constant(rd, rs1, value, scratch)
    assert len(words(k)) - before <= (3 if abs(value) > 4096 or value == 4095 else 2)
    assert returned(k, rd) == 100000 + value


@pytest.mark.parametrize("offset", [0, 7, -5000, 100000])
def test_an_address_is_a_number_or_in_a_register(offset):
    for is_register in (False, True):
        k = new_kernel()
        base, rd = k.x(2)
        k.li(base, 0x10000)
        k.set(rd, base if is_register else 0x10000, offset)
        assert returned(k, rd) == 0x10000 + offset


def test_adding_nothing_to_a_register_takes_no_instruction():
    k = new_kernel()
    k.add_constant(A[0], A[0], 0, A[1])
    assert words(k) == []


@pytest.mark.parametrize(("core", "registers"), PROFILES)
@pytest.mark.parametrize("is_register", [False, True])
def test_floats_are_loaded_and_stored_with_pointers_that_advance(core, registers, is_register):
    k = new_kernel(core, registers)
    source = k.data("source", b"".join(n.to_bytes(4, "little") for n in (11, 22, 33, 44)))
    target = k.buffer(k.l2, "target", 20)
    p, t, step = k.x(3)
    f = k.f(4)
    if (core, registers) == ("cv32e40p", "f"):
        k.li(t, MSTATUS_FS)
        k.csrw(CSRS["mstatus"], t)
    k.li(p, source)
    k.li(t, target)
    k.li(step, 8)
    k.fload_post(f[0], step if is_register else 8, p)
    k.fload_post(f[1], 4, p)
    k.fload(f[2], -12, p)
    k.fload(f[3], -8, p)
    k.fstore_post(f[1], step if is_register else 8, t)
    k.fstore(f[0], -4, t)
    k.fstore_post(f[2], 4, t)
    k.fstore_post(f[3], 4, t)
    k.fzero(f[0])
    k.fstore(f[0], 0, t)
    first, second = k.x(2)
    k.li(p, source)
    k.load_post(first, step if is_register else 8, p)
    k.load_post(second, 4, p)
    k.li(t, target)
    k.store_post(second, step if is_register else 8, t)
    exit_(k, first)
    machine = Machine(k.build(), k.isa).run()
    assert machine.code == 11
    stored = machine.read(target, 20)
    assert [stored[i] for i in range(0, 20, 4)] == [33, 11, 11, 22, 0]


@pytest.mark.parametrize("registers", ["x", "f"])
def test_post_increment_is_one_instruction_where_floats_are_in_x_registers(registers):
    k = new_kernel("ri5cy", registers)
    k.fload_post(k.f(), 4, A[0])
    texts = [disassemble(word, k.isa) for word in words(k)]
    assert texts == (
        ["p.lw t0, 4(a0!)"] if registers == "x" else ["flw ft0, 0(a0)", "addi a0, a0, 4"]
    )


def test_addresses_of_labels_are_loaded():
    k = new_kernel()
    end = k.label("end")
    k.la(A[0], end)
    for _ in range(600):
        k.nop()
    k.place(end)
    result = k.x()
    k.mv(result, A[0])
    assert returned(k, result) == k.code_at.base + 4 * 602


def test_data_and_buffers_lie_in_their_arenas_under_their_names():
    k = new_kernel()
    a = k.data("a", b"abc")
    hole = k.buffer(k.l2, "hole", 100)
    b = k.data("b", b"defgh", align=4)
    c = k.data("c", b"i", align=1)
    l1 = k.buffer(k.l1, "l1", 64)
    k.nop()
    program = k.build()
    assert (a, hole, b, c, l1) == (*(0x1C020000, 0x1C020010, 0x1C020074, 0x1C020079, 0x10000000),)
    assert [(s.address, s.data, s.executable) for s in program.segments[1:]] == [
        (a, b"abc", False),
        (b, b"defghi", False),
    ]
    assert program.segments[0].executable
    assert not program.segments[0].writable
    symbols = {s.name: (s.address, s.size, s.kind) for s in program.symbols}
    assert symbols["hole"] == (hole, 100, "object")
    assert symbols["l1"] == (l1, 64, "object")
    assert (k.l1.left, k.l2.left) == (0xE000 - 64, 0x1E0000 - 0x7A)


def test_pieces_of_data_near_each_other_are_one_segment():
    k = new_kernel()
    k.nop()
    k.data("a", b"abc")
    k.data("b", b"def")
    assert k.build().segments[1].data == b"abc" + bytes(13) + b"def"


def test_data_that_does_not_fit_is_refused():
    arena = Arena("L1", 0x10000000, 100)
    assert arena.take("a", 30) == 0x10000000
    assert arena.take("b", 30, align=4) == 0x10000020
    assert refusal(arena.take, "tensor x", 37, 4) == (
        "L1: tensor x of 37 bytes does not fit: 36 of 100 bytes are left"
    )
    assert arena.take("c", 36, align=4) == 0x10000040
    assert refusal(arena.take, "tensor y", 1000) == (
        "L1: tensor y of 1000 bytes does not fit: 0 of 100 bytes are left"
    )


def test_buffers_with_guards_keep_their_distance():
    arena = Arena("L1", 0x10000000, 128, guard=16)
    assert [arena.take("a", 5), arena.take("b", 16), arena.left] == [0x10000010, 0x10000030, 32]
    assert arena.take("c", 32) == 0x10000050
    assert refusal(arena.take, "d", 1) == ("L1: d of 1 bytes does not fit: 0 of 128 bytes are left")


def test_data_that_overlap_are_refused():
    k = new_kernel("ri5cy", "x")
    k.put(0x1C020000, bytes(8))
    k.put(0x1C020006, bytes(4))
    message = "data at 0x1c020006 would begin inside the 8 bytes at 0x1c020000"
    with pytest.raises(KernelError, match=message):
        k.build()


def test_poison_lies_wherever_nothing_is_put():
    k = new_kernel()
    text = k.data("text", b"hello", align=1)
    a = k.buffer(k.l1, "a", 8)
    k.put(a + 4, b"1234")
    k.poison()
    k.nop()
    contents = {s.address: s.data for s in k.build().segments if not s.executable}
    l1, l2 = contents[0x10000000], contents[0x1C020000]
    assert text == 0x1C020000
    assert l1 == POISON + b"1234" + POISON * (0xE000 // 4 - 2)
    assert l2 == b"hello" + POISON[1:] + POISON * (0x1E0000 // 4 - 2)
    assert np.isnan(np.frombuffer(POISON, "<f4")).all()


def test_words_of_data_may_be_addresses_of_labels():
    k = new_kernel()
    there, after = k.label("there"), k.label()
    k.j(after)
    with k.routine(there):
        k.li(A[0], 77)
        exit_(k, A[0])
    k.place(after)
    table = k.words("table", [1, there, -1])
    address = k.x()
    k.li(address, table + 4)
    k.lw(address, 0, address)
    k.jr(address)
    program = k.build()
    assert program.bytes_at(table, 12) == struct.pack(
        "<IIi", 1, program.symbol("there").address, -1
    )
    assert Machine(program, k.isa).run().code == 77


def test_a_routine_has_all_registers_and_restores_none():
    k = new_kernel()
    kept = k.x(20)
    there, end = k.label("there"), k.label()
    k.j(there)
    with k.routine(there):
        k.x(30)
        assert refusal(k.return_) == "return_: not in a function"
        k.j(end)
    assert k.registers.live == set(kept)
    k.place(end)
    assert len(words(k)) == 2


def test_code_that_does_not_fit_is_refused():
    isa = profile("ri5cy", "x")
    arenas = Arena("L1", 0x10000000, 64), Arena("L2", 0x1C020000, 64)
    k = Kernel(isa, *arenas, name="wide", code_at=Arena("code", 0x1C010080, 8))
    for _ in range(3):
        k.nop()
    assert refusal(k.build) == (
        "wide: 12 bytes of code; there is room for 8: let code be 12 or more"
    )


def test_regions_are_numbered_in_the_order_of_their_names():
    k = new_kernel()
    with k.region("outer"):
        with k.region("inner"):
            k.nop()
        with k.region("inner"):
            k.nop()
    texts = [disassemble(word, k.isa) for word in words(k)]
    numbers = [int(text.rpartition(" ")[2]) for text in texts if text.startswith("slti")]
    assert numbers == [0, 2, 3, 2, 3, 1]
    assert k.regions == {0: "outer", 1: "inner"}


def test_the_code_of_a_region_has_a_symbol_and_after_it_is_what_was():
    k = new_kernel()
    k.here("start")
    k.nop()
    with k.region("outer"):
        k.nop()
        with k.region("inner"):
            k.nop()
    with k.region("next"):
        k.nop()
    k.nop()
    program, base = k.build(), k.code_at.base
    names = [program.symbol_at(address) for address in range(base, base + 4 * 11, 4)]
    own = [f"{k.name}.{name}" for name in ("outer", "inner", "next")]
    wanted = ["start", *[own[0]] * 2, *[own[1]] * 3, own[0], *[own[2]] * 3, "start"]
    assert [symbol and symbol.name for symbol in names] == wanted


def test_more_regions_than_markers_can_say_are_refused():
    k = new_kernel()
    for number in range(1024):
        with k.region(f"region {number}"):
            pass
    message = "region one more: there are 1024 already, the most"
    assert refusal(k.region("one more").__enter__) == message
    with k.region("region 1023"):
        pass


def test_a_program_starts_where_it_is_told_and_survives_its_elf_file():
    k = new_kernel()
    k.data("a", b"abc")
    k.fadd_s(A[0], A[1], A[2])
    start = k.here("start")
    k.p_lw(A[0], 4, A[1])
    assert k.build().entry == k.code_at.base
    program = k.build(start)
    assert program.entry == k.code_at.base + 4
    assert program.architecture == "rv32i_zfinx_xpulpv2"
    assert (program.float_registers, program.flags) == ("x", 0)
    assert Program.from_elf(program.to_elf()) == program
    k.c_nop()
    assert k.build().flags == 1


def test_every_instruction_has_the_line_of_python_that_emitted_it():
    k = new_kernel()
    first = k.label().source.line + 1
    for _ in range(2):
        k.nop()
    k.li(A[0], 0x12345678)
    with k.loop(4):
        k.nop()
    with k.region("r"):
        k.nop()
    lines = k.build().lines
    base = k.code_at.base
    files = {lines.at(base + 4 * n)[0] for n in range(len(words(k)))}
    assert files == {"tests/firmware/test_builder.py"}
    found = [lines.at(base + 4 * n)[1] - first for n in range(len(words(k)))]
    assert found == [1, 1, 2, 2, 3, 4, 3, 3, 5, 6, 5]


def test_a_listing_shows_address_word_instruction_and_python():
    k = new_kernel()
    k.here("main")
    with k.hwloop(4):
        k.p_lw(T[0], 4, A[0])
        k.nop()
        k.p_sw(T[0], 4, A[1])
    k.wfi()
    text = re.sub(r"test_builder\.py:\d+", "test_builder.py:LINE", k.listing())
    assert (
        text
        == """\
test: entry main

section .text

1c010080 <main>:
# tests/firmware/test_builder.py:LINE: with k.hwloop(4):
1c010080: 0043507b    lp.setupi x0, 4, 0x1c01008c  # main+0xc
# tests/firmware/test_builder.py:LINE: k.p_lw(T[0], 4, A[0])
1c010084: 0045228b  │ p.lw t0, 4(a0!)
# tests/firmware/test_builder.py:LINE: k.nop()
1c010088: 00000013  │ nop
# tests/firmware/test_builder.py:LINE: k.p_sw(T[0], 4, A[1])
1c01008c: 0055a22b  └ p.sw t0, 4(a1!)
# tests/firmware/test_builder.py:LINE: k.wfi()
1c010090: 10500073    wfi
"""
    )


def test_lines_of_files_outside_the_project_keep_their_path(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "from tests.firmware.kernels import new_kernel\n"
        "k = new_kernel()\n"
        "k.nop()\n"
        "print(k.build().lines.at(k.code_at.base), k.listing().splitlines()[3])\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=True,
    )
    assert done.stdout == f"('{script}', 3) # {script}:3: k.nop()\n"

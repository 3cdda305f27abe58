"""Where harts are: their call chains, what they wait for, since when."""

import pytest

from isa.assembler.asm import assemble
from soc.debug.whereabouts import whereabouts
from soc.run import ENGINES, run_program
from tests.pulpsim.gdb.c_programs import compiled, line_of, needs_compiler
from tests.soc.random_programs import ENTRY, ISA


@needs_compiler
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_every_core_of_a_stuck_program_says_where_it_waits(level, tmp_path) -> None:
    chain = ["meet", "work"] if level == "-O0" else ["meet", "fork_loop"]
    result = run_program(compiled("stuck", tmp_path, level), max_cycles=5000)
    found = {one.name: one for one in whereabouts(result)}
    assert found["core3"].doing == "runs"
    assert found["core3"].since is None
    assert [frame.function for frame in found["core3"].frames][:2] == chain
    for core in (1, 2, 4, 5, 6, 7):
        one = found[f"core{core}"]
        assert one.doing == "waits at barrier 0 for core3"
        assert one.since is not None
        assert 300 < one.since < 2000
        names = [frame.function for frame in one.frames if frame.function != "team_barrier"]
        assert names[:2] == chain
        assert one.frames[0].file.endswith("pulp.h")
    lines = {frame.line for frame in found["core1"].frames if frame.file.endswith("stuck.c")}
    assert level == "-O2" or line_of("stuck", "meet(core_id())") in lines
    assert [frame.function for frame in found["fc"].frames][:2] == ["cluster_run", "main"]
    assert found["fc"].doing == "waits for an interrupt (wfi)"


@pytest.mark.parametrize("engine", ENGINES)
def test_waits_of_every_kind_are_named(engine: str) -> None:
    source = """
    _start:
        li s0, 0x10200000
        la t0, core
        sw t0, 0x40(s0)
        li t0, 1
        sw t0, 8(s0)
    loop: j loop
    core:
        wfi
    """
    result = run_program(assemble(source, ISA, text_base=ENTRY), engine=engine, max_cycles=2000)
    found = {one.name: one.text for one in whereabouts(result)}
    assert found["fc"] == "fc: loop at source:8: runs"
    assert found["core0"].startswith("core0: core at source:10: waits for an interrupt (wfi) since")
    assert found["core1"] == "core1: 0x00000000: is not started since cycle 0"


def test_the_hart_that_ends_a_run_is_told_from_the_others() -> None:
    source = "_start: li a0, 3\nebreak\n"
    result = run_program(assemble(source, ISA, text_base=ENTRY), max_cycles=2000)
    assert result.exit.reason == "trap"
    [one] = [one for one in whereabouts(result) if one.name == "fc"]
    assert (one.doing, one.frames[0].line) == ("is stopped by what it did", 2)
    assert one.to_json()["frames"] == [
        {"pc": ENTRY + 4, "function": "_start", "file": "source", "line": 2}
    ]


@needs_compiler
def test_call_frames_that_are_damaged_say_nothing(tmp_path) -> None:
    from random import Random

    from isa.elf.call_frames import CallFrames
    from isa.program import Program

    pytest.importorskip("elftools")
    frames = Program.from_elf(compiled("stuck", tmp_path, "-O0")).frames
    addresses = range(ENTRY, ENTRY + 0x400, 2)
    assert any(frames.at(address) for address in addresses)
    random = Random(1)
    for _ in range(60):
        data = bytearray(frames.data)
        for _ in range(random.choice((1, 4, 40))):
            data[random.randrange(len(data))] = random.randrange(256)
        damaged = CallFrames(bytes(data[: random.randrange(len(data))]))
        for address in addresses:
            damaged.at(address)

"""Programs for the whole chip: the fabric controller starts the cores, which run one piece of code.

Registers of the cores: s0 L1, s1 event unit (0x400 after: the DMA), s2 cluster peripherals, s3 the
DMA's shared port, s4 SoC control, s5 core number, s6 64 bytes of L1 of their own. They enter the
code together, after a barrier.
"""

from typing import Any

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.chip.spec import load_chip
from soc.result import RunResult
from soc.run import run_program

ISA = profile("ri5cy", "x", small_floats=True, dot_products=True)
ENTRY = 0x1C010000

PROGRAM = """
_start:
    li s2, 0x10200000
    la t0, core
    {boot}
    li s1, 0x1c020000
    li s3, 0x10201c00
    li s4, 0x1a109800
    {controller}
    li t0, {cores}
    sw t0, 8(s2)
    li t1, 0x1c030000
    li t2, {cores}
wait:
    lw t0, 0(t1)
    bne t0, t2, wait
    li t0, 0x1a1040a0
    li t1, 0x80000000
    sw t1, 0(t0)
end:
    j end
core:
    li s0, 0x10000000
    li s1, 0x10204000
    li s2, 0x10200000
    li s3, 0x10201800
    li s4, 0x1a104000
    csrr s5, mhartid
    slli s6, s5, 6
    add s6, s6, s0
    li t0, 0x10000
    sw t0, 8(s1)
    li t0, {cores}
    sw t0, 0x200(s1)
    sw t0, 0x20c(s1)
    p.elw t0, 0x21c(s1)
    {code}
    p.elw t0, 0x21c(s1)
    bnez s5, stop
    li t0, 0x1c030000
    li t1, {cores}
    sw t1, 0(t0)
stop:
    wfi
    j stop
"""


def run(
    code: str = "",
    controller: str = "",
    cores: int = 0xFF,
    engine: str = "compiled",
    fields: dict[str, Any] | None = None,
) -> RunResult:
    """Run code on these cores, a bit each, after code of the fabric controller; `;` parts lines.

    fields    of the chip, by name

    Of the fabric controller: s1 L2, s3 its port of the DMA, s4 its interrupt controller.
    """
    boot = "\n".join(f"sw t0, {0x40 + 4 * core:#x}(s2)" for core in range(8))
    text = PROGRAM.format(
        boot=boot,
        cores=cores,
        code=code.replace(";", "\n"),
        controller=controller.replace(";", "\n"),
    )
    chip = load_chip("pulp", {"icache.kind": "ideal", **(fields or {})})  # only the data's ways
    program = assemble(text, ISA, text_base=ENTRY)
    return run_program(program, chip, engine=engine, max_cycles=20_000)


def region_cycles(result: RunResult) -> list[int]:
    """By core, the cycles between markers 0 and 1 after the first marker."""
    assert result.exit.reason == "exit", result.exit.message
    harts = result.to_json()["harts"]
    return [hart["regions"][0]["cycles"] - 1 for hart in harts if hart["regions"]]

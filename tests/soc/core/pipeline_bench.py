"""Short programs on the test benches of the RTL, one core: cycles between two markers."""

from dataclasses import dataclass, field
from typing import Any

from isa.assembler.asm import assemble
from soc.chip.profile import isa_of
from soc.chip.spec import load_chip
from soc.result import RunResult
from soc.run import run_program

L1 = 0x10000000

CODE = 0x1C000000

PROGRAM = """
    j _start
    .balign 128
_start:
    {counters}
    li s0, 0x10000000
    li s1, 0x10000400
    li s11, 0x1a100000
    li t6, 0x6000
    csrs mstatus, t6
    {setup}
    .balign 4
    nop
    nop
    nop
    nop
    slti x0, x0, 0
    {code}
    slti x0, x0, 1
    nop
    nop
    {after}
    sw a0, 0(s11)
end:
    j end
    {functions}
"""


@dataclass(frozen=True)
class Bench:
    """A core to measure on.

    fields    of the core, by name
    """

    core: str = "cv32e40p"
    floats: str = "f"
    fields: dict[str, Any] = field(default_factory=dict)

    def run(
        self, code: str, setup: str = "", after: str = "li a0, 0", functions: str = ""
    ) -> RunResult:
        """Run a program around the code; `;` parts its lines. s0, s1 point to L1, s11 to the page.

        setup        comes before the first marker
        after        comes after the second; a0 is the exit code
        functions    come after the end
        """
        fields = {f"core.{name}": value for name, value in self.fields.items()}
        spec = load_chip(
            f"{self.core}-rtl", {"cores": 1, "core.float_registers": self.floats, **fields}
        )
        counters = "" if self.core == "ri5cy" else "csrwi mcountinhibit, 0"
        parts = {"code": code, "setup": setup, "after": after, "functions": functions}
        text = PROGRAM.format(
            counters=counters, **{name: part.replace(";", "\n") for name, part in parts.items()}
        )
        program = assemble(text, isa_of(spec, self.floats), text_base=CODE, data_base=L1)
        return run_program(program, spec, max_cycles=20_000)

    def cycles(self, code: str, **parts: str) -> int:
        """Cycles from the marker's issue before the code to that after it: 1 for no code."""
        result = self.run(code, **parts)
        assert result.exit.reason == "exit", result.exit.message
        return int(result.chip.regions[0]["cycles"])


def latency(registers: int) -> Bench:
    """CV32E40P with this many pipeline registers in its FPU."""
    return Bench(fields={"fpu_latency": registers})


CV32E40P = Bench()
RI5CY = Bench("ri5cy")

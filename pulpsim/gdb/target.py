"""The harts' registers as GDB numbers them, and the description that tells it so.

Source: GDB manual, appendix G.5.11 "RISC-V Features"; riscv-tdep.h (numbers of registers).
"""

from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from isa.assembler.names import F_NAMES, LOOP_CSRS, X_NAMES, csr_numbers, has_float_registers
from isa.declare import Isa
from soc.chip.spec import SocSpec

PC, FIRST_FLOAT, FIRST_CSR = 32, 33, 65

FLOAT_CSRS = ("fflags", "frm", "fcsr")
STANDARD_CSRS = """
    mstatus misa mie mtvec mscratch mepc mcause mip mhartid mcycle minstret
""".split()
RI5CY_COUNTERS = ("pcer", "pcmr", *(f"pccr{number}" for number in range(21)))
CV32E40P_COUNTERS = ("mcountinhibit", *(f"mhpmcounter{number}" for number in range(3, 32)))
LOOPS = tuple(name for name in LOOP_CSRS if name)


class Register(NamedTuple):
    """A register of a hart.

    entry    in the register file, or -1
    csr      its number, or -1
    """

    number: int
    name: str
    kind: str
    feature: str
    entry: int = -1
    csr: int = -1


def registers(isa: Isa) -> dict[int, Register]:
    """Registers of harts with these instructions, by GDB's numbers."""
    found = [
        Register(n, name, _kind_of_x(name), "org.gnu.gdb.riscv.cpu", entry=n)
        for n, name in enumerate(X_NAMES)
    ]
    found.append(Register(PC, "pc", "code_ptr", "org.gnu.gdb.riscv.cpu"))
    if has_float_registers(isa):
        found += [
            Register(FIRST_FLOAT + n, name, "ieee_single", "org.gnu.gdb.riscv.fpu", entry=32 + n)
            for n, name in enumerate(F_NAMES)
        ]
    known = csr_numbers(isa)
    counters = CV32E40P_COUNTERS if isa.name.startswith("cv32e40p") else RI5CY_COUNTERS
    for feature, names in (
        ("org.gnu.gdb.riscv.fpu" if has_float_registers(isa) else "org.pulp.float", FLOAT_CSRS),
        ("org.gnu.gdb.riscv.csr", STANDARD_CSRS),
        ("org.pulp.loops", LOOPS),
        ("org.pulp.counters", counters),
    ):
        found += [
            Register(FIRST_CSR + known[name], name, "uint32", feature, csr=known[name])
            for name in names
        ]
    return {register.number: register for register in found}


def _kind_of_x(name: str) -> str:
    return {"sp": "data_ptr", "gp": "data_ptr", "tp": "data_ptr", "ra": "code_ptr"}.get(
        name, "uint32"
    )


def description(known: dict[int, Register]) -> str:
    """target.xml. No operating system: GDB for Linux would step by breakpoints of its own."""
    features: dict[str, list[str]] = {}
    for register in known.values():
        group = ' group="csr"' if register.csr >= 0 else ""
        features.setdefault(register.feature, []).append(
            f'<reg name={quoteattr(register.name)} bitsize="32" type="{register.kind}" '
            f'regnum="{register.number}"{group}/>'
        )
    body = "\n".join(
        f'<feature name="{name}">\n' + "\n".join(lines) + "\n</feature>"
        for name, lines in features.items()
    )
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE target SYSTEM "gdb-target.dtd">\n<target version="1.0">\n'
        f"<architecture>riscv:rv32</architecture>\n<osabi>none</osabi>\n{body}\n</target>\n"
    )


def memory_map(spec: SocSpec) -> str:
    """What GDB may read and write: L1 and L2."""
    regions = "\n".join(
        f'<memory type="ram" start="{memory.base:#x}" length="{memory.size:#x}"/>'
        for memory in (spec.l1, spec.l2)
    )
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE memory-map PUBLIC "+//IDN gnu.org//DTD GDB Memory Map '
        'V1.0//EN" "http://sourceware.org/gdb/gdb-memory-map.dtd">\n'
        f"<memory-map>\n{regions}\n</memory-map>\n"
    )

"""Names that stand for numbers in assembly: registers, CSRs, rounding modes, fence sets.

Sources: RISC-V ELF psABI 1.0, chapter 1 (register names); RISC-V privileged manual (CSRs); manuals
of RI5CY and of CV32E40P v1 (their own CSRs).
"""

from isa.declare import Isa

X_NAMES = """
    zero ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5
    a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6
""".split()
F_NAMES = """
    ft0 ft1 ft2 ft3 ft4 ft5 ft6 ft7 fs0 fs1 fa0 fa1 fa2 fa3 fa4 fa5
    fa6 fa7 fs2 fs3 fs4 fs5 fs6 fs7 fs8 fs9 fs10 fs11 ft8 ft9 ft10 ft11
""".split()
X_NUMBERS = (
    {name: number for number, name in enumerate(X_NAMES)}
    | {f"x{number}": number for number in range(32)}
    | {"fp": 8}
)
F_NUMBERS = {name: number for number, name in enumerate(F_NAMES)} | {
    f"f{number}": number for number in range(32)
}

ROUNDING_MODES = {"rne": 0, "rtz": 1, "rdn": 2, "rup": 3, "rmm": 4, "dyn": 7}
DYNAMIC = ROUNDING_MODES["dyn"]

FENCE_SETS = {
    "".join(letter for bit, letter in zip((8, 4, 2, 1), "iorw", strict=True) if bits & bit): bits
    for bits in range(1, 16)
}

CSRS = {
    "fflags": 0x001,
    "frm": 0x002,
    "fcsr": 0x003,
    "mstatus": 0x300,
    "misa": 0x301,
    "mie": 0x304,
    "mtvec": 0x305,
    "mcountinhibit": 0x320,
    "mscratch": 0x340,
    "mepc": 0x341,
    "mcause": 0x342,
    "mtval": 0x343,
    "mip": 0x344,
    "tselect": 0x7A0,
    "tdata1": 0x7A1,
    "tdata2": 0x7A2,
    "tdata3": 0x7A3,
    "tinfo": 0x7A4,
    "dcsr": 0x7B0,
    "dpc": 0x7B1,
    "dscratch0": 0x7B2,
    "dscratch1": 0x7B3,
    "mcycle": 0xB00,
    "minstret": 0xB02,
    "mcycleh": 0xB80,
    "minstreth": 0xB82,
    "cycle": 0xC00,
    "time": 0xC01,
    "instret": 0xC02,
    "cycleh": 0xC80,
    "timeh": 0xC81,
    "instreth": 0xC82,
    "mvendorid": 0xF11,
    "marchid": 0xF12,
    "mimpid": 0xF13,
    "mhartid": 0xF14,
}
for _number in range(3, 32):
    CSRS[f"mhpmevent{_number}"] = 0x320 + _number
    CSRS[f"mhpmcounter{_number}"] = 0xB00 + _number
    CSRS[f"mhpmcounter{_number}h"] = 0xB80 + _number
    CSRS[f"hpmcounter{_number}"] = 0xC00 + _number
    CSRS[f"hpmcounter{_number}h"] = 0xC80 + _number

LOOP_CSRS = ("lpstart0", "lpend0", "lpcount0", None, "lpstart1", "lpend1", "lpcount1")


def _loop_csrs(base: int) -> dict[str, int]:
    return {name: base + offset for offset, name in enumerate(LOOP_CSRS) if name}


RI5CY_CSRS = {
    "ustatus": 0x000,
    "fprec": 0x006,
    "uhartid": 0x014,
    "stack_conf": 0x7D0,
    "stack_start": 0x7D1,
    "stack_end": 0x7D2,
    "mpcer": 0x7E0,
    "mpcmr": 0x7E1,
    "pccr_all": 0x79F,
    "privlv": 0xC10,
    "pcer": 0xCC0,
    "pcmr": 0xCC1,
    **{f"pccr{number}": 0x780 + number for number in range(31)},
    **_loop_csrs(0x7C0),
}
CV32E40P_CSRS = {"uhartid": 0xCD0, "privlv": 0xCD1, "zfinx": 0xCD2, **_loop_csrs(0xCC0)}


def has_float_registers(isa: Isa) -> bool:
    """Do floats have registers of their own? The profile's name says it: "ri5cy-f", "ri5cy-x"."""
    return "x" not in isa.name.split("-")


def csr_numbers(isa: Isa) -> dict[str, int]:
    """CSRs by name, of the core that has this instruction set."""
    return CSRS | (CV32E40P_CSRS if isa.name.startswith("cv32e40p") else RI5CY_CSRS)

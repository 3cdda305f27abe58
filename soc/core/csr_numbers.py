"""Addresses of control and status registers, ways to access them, and what that costs.

Sources: reference tables of RI5CY (2018-2020) and CV32E40P v1; costs as measured on RTL.
"""

WRITE, SET, CLEAR = 1, 2, 3
MODES = {
    "csrrw": WRITE,
    "csrrs": SET,
    "csrrc": CLEAR,
    "csrrwi": WRITE,
    "csrrsi": SET,
    "csrrci": CLEAR,
}

FFLAGS, FRM, FCSR = 0x001, 0x002, 0x003
MSTATUS, MISA, MIE, MTVEC, MCOUNTINHIBIT = 0x300, 0x301, 0x304, 0x305, 0x320
MSCRATCH, MEPC, MCAUSE, MTVAL, MIP = 0x340, 0x341, 0x342, 0x343, 0x344
MHARTID = 0xF14
MTVECX = 0x7D1  # of PULP's Ibex; RI5CY's stack_start
TSELECT, TDATA1, TINFO, MCONTEXT, SCONTEXT = 0x7A0, 0x7A1, 0x7A4, 0x7A8, 0x7AA
UHARTID, PRIVLV, ZFINX = 0xCD0, 0xCD1, 0xCD2
PCCR, PCCR_ALL = 0x780, 0x79F
PCER, PCMR = 0xCC0, 0xCC1
PCER_MACHINE, PCMR_MACHINE = 0x7E0, 0x7E1

FLUSH_CYCLES = 4
MSTATUS_RESET = 0x1800  # MPP = machine
MSTATUS_MIE = 8  # interrupts are enabled
MSTATUS_WRITABLE = 0x88  # MIE, MPIE
MSTATUS_FS = 0x6000
IRQ_MASK = 0xFFFF0888  # interrupts that CV32E40P has (cv32e40p_pkg.sv)
TDATA1_RESET = 0x28001040  # mcontrol, of debug mode alone (cv32e40p_cs_registers.sv)
TINFO_TYPES = 1 << 2  # of trigger: mcontrol


def csr_cost(key: str, operands: dict[str, int], ri5cy: bool) -> int:
    """Cycles to the issue of the next instruction, as measured (table and rule P)."""
    csr = operands["csr"]
    writes = key in ("csrrw", "csrrwi") or operands.get("rs1", operands.get("uimm")) != 0
    if csr == MSTATUS:
        return FLUSH_CYCLES
    if ri5cy:
        return 1
    if csr in (FRM, FCSR):
        return FLUSH_CYCLES if writes else 1
    flushing = (
        csr in (MTVEC, MEPC, MCAUSE, MCOUNTINHIBIT, PRIVLV)
        or 0x323 <= csr <= 0x33F
        or 0xB00 <= csr <= 0xB9F
        or 0xC00 <= csr <= 0xC9F
    )
    return FLUSH_CYCLES if flushing else 1

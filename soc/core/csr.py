"""Control and status registers of a hart, with their costs.

Sources: reference tables of RI5CY (2018-2020) and CV32E40P v1; costs as measured on RTL. RI5CY as
PULP uses it lets a program write PCER and PCMR although their addresses say read-only.
"""

from isa.extensions import zicsr
from soc.core.csr_numbers import (
    FCSR,
    FFLAGS,
    FRM,
    IRQ_MASK,
    MCAUSE,
    MCONTEXT,
    MCOUNTINHIBIT,
    MEPC,
    MHARTID,
    MIE,
    MIP,
    MISA,
    MSCRATCH,
    MSTATUS,
    MSTATUS_FS,
    MSTATUS_RESET,
    MSTATUS_WRITABLE,
    MTVEC,
    MTVECX,
    PCCR,
    PCCR_ALL,
    PCER,
    PCER_MACHINE,
    PCMR,
    PCMR_MACHINE,
    PRIVLV,
    SCONTEXT,
    SET,
    TDATA1,
    TDATA1_RESET,
    TINFO,
    TINFO_TYPES,
    TSELECT,
    UHARTID,
    WRITE,
    ZFINX,
)
from soc.core.float_state import (
    dirty_floats,
    floats_are_off,
    has_float_state,
    note_float_state,
    set_rounding_mode,
)
from soc.core.stack_check import STACK_CONF, set_stack_bounds
from soc.prelude.counters import COUNT
from soc.prelude.step import step

csrrw, csrrs, csrrc = (step(meaning) for meaning in (zicsr.csrrw, zicsr.csrrs, zicsr.csrrc))

PCER_EVENTS = 21  # 12 of the core, 5 of the cluster, 4 of the FPU
HPM_EVENTS = 16
LARGEST = 0xFFFFFFFF
SATURATE = 2

PLAIN = {0x006: 0, 0x7D0: 1, 0x7D1: 2, 0x7D2: 3}
"""Registers that only remember: fprec, the stack checker's."""


@step
def event_count(hart, event, cycle, later):
    """Return how often a performance event has occurred, in the core's own numbering.

    Before the CSR access that issues in this cycle; of what occurs in every cycle (cycles,
    instructions) so many cycles later.
    """
    counts = hart["counts"]
    if event == 0:
        return cycle + later
    if event == 1:
        return counts[COUNT.instructions] - 1 + later
    if event == 2:
        return counts[COUNT.load_use]
    if event == 3:
        return counts[COUNT.jump_register]
    if event == 4:
        return counts[COUNT.fetch]
    if event == 5:
        return counts[COUNT.loads]
    if event == 6:
        return counts[COUNT.stores]
    if event == 7:
        return counts[COUNT.jumps]
    if event == 8:
        return counts[COUNT.branches]
    if event == 9:
        return counts[COUNT.taken]
    if event == 10:
        return counts[COUNT.compressed]
    if event == 11:
        return counts[COUNT.event]
    return _ri5cy_event(counts, event) if hart["ri5cy"] else _cv32e40p_event(counts, event)


@step
def _ri5cy_event(counts, event):
    """What the cluster adds (data_periph_demux.sv), then the FPU (17 is a type conflict: none).

    Cycles of external accesses include those of their grants.
    """
    if event == 12:
        return counts[COUNT.external_loads]
    if event == 13:
        return counts[COUNT.external_stores]
    if event == 14:
        return counts[COUNT.load_external] + counts[COUNT.external_loads]
    if event == 15:
        return counts[COUNT.store_external] + counts[COUNT.external_stores]
    if event == 16:
        return counts[COUNT.l1_contention]
    if event == 18:
        return counts[COUNT.fpu_contention]
    if event == 19:
        return counts[COUNT.fpu_dependency]
    if event == 20:
        return counts[COUNT.fpu_writeback]
    return 0


@step
def _cv32e40p_event(counts, event):
    """The FPU (12 is a type conflict: none)."""
    if event == 13:
        return counts[COUNT.fpu_contention]
    if event == 14:
        return counts[COUNT.fpu_dependency]
    if event == 15:
        return counts[COUNT.fpu_writeback]
    return 0


@step
def counter_live(hart, index, cycle, later):
    """Return the free-running count that a counter shows: PCCR(index), or mhpmcounter(index)."""
    if hart["ri5cy"]:
        return event_count(hart, index, cycle, later)
    if index == 0 or index == 2:
        return event_count(hart, index >> 1, cycle, later)
    total = 0
    for event in range(HPM_EVENTS):
        if hart["hpm_event"][index] >> event & 1:
            total += event_count(hart, event, cycle, later)
    return total


@step
def counter_runs(hart, index):
    """Does this counter count now?"""
    if hart["ri5cy"]:
        return hart["count_mode"] & 1 != 0 and hart["events"] >> index & 1 != 0
    return hart["mcountinhibit"] >> index & 1 == 0


@step
def counter_read(hart, index, cycle, later=0):
    """Return a counter's value. RI5CY's stop at their largest value unless PCMR lets them wrap."""
    value = hart["counter"][index]
    if counter_runs(hart, index):
        value += max(0, counter_live(hart, index, cycle, later) - hart["counter_base"][index])
    if hart["ri5cy"]:
        value = min(value, LARGEST) if hart["count_mode"] & SATURATE else value & LARGEST
    return value


@step
def switch_delay(hart):
    """Cycles from the issue of a CSR access to the last that counts as before.

    It is written in EX, one cycle after the issue; RI5CY's events reach their counters through one
    more register (riscv_cs_registers.sv PCCR_inc_q, cv32e40p_cs_registers.sv).
    """
    return 2 if hart["ri5cy"] else 1


@step
def counters_freeze(hart, cycle):
    """Bring all counters up to date, before what they count changes."""
    for index in range(32):
        hart["counter"][index] = counter_read(hart, index, cycle, switch_delay(hart))


@step
def counters_restart(hart, cycle):
    """Let the counters go on from their values under the new settings."""
    for index in range(32):
        hart["counter_base"][index] = counter_live(hart, index, cycle, switch_delay(hart))


@step
def counter_set(hart, index, value, cycle):
    """Write a counter: what happens after this cycle is added."""
    hart["counter"][index] = value
    hart["counter_base"][index] = counter_live(hart, index, cycle, 1)


@step
def _meant(hart, csr):
    """The register that a number means: PULP's Ibex has mtvec at 0x7D1 (mtvecx)."""
    return MTVEC if csr == MTVECX and hart["ibex_csrs"] else csr


@step
def csr_exists(hart, csr):
    """Is csr implemented on this core (cv32e40p_decoder.sv)? RI5CY reads others as 0."""
    if hart["ri5cy"]:
        return True
    csr = _meant(hart, csr)
    if 0xB00 <= csr <= 0xB9F or 0xC00 <= csr <= 0xC9F:
        return csr & 0x60 == 0 and csr & 31 != 1
    if csr == ZFINX:
        return hart["f_registers"] == 0
    if FFLAGS <= csr <= FCSR:
        return not floats_are_off(hart)
    return (
        (MSTATUS <= csr <= MTVEC and csr != 0x302 and csr != 0x303)
        or (MCOUNTINHIBIT <= csr <= MIP and csr != 0x321 and csr != 0x322)
        or TSELECT <= csr <= TINFO
        or csr == MCONTEXT
        or csr == SCONTEXT
        or (0xCC0 <= csr <= 0xCC6 and csr != 0xCC3)
        or UHARTID <= csr <= PRIVLV
        or 0xF11 <= csr <= MHARTID
    )


@step
def csr_read_only(hart, csr):
    """Does a write to csr trap?"""
    return hart["ri5cy"] == 0 and csr >> 10 == 3


@step
def csr_read(hart, csr, cycle):
    """Return the value of a register, unsigned 32 bits."""
    csr = _meant(hart, csr)
    if csr == FFLAGS:
        return hart["fflags"]
    if csr == FRM:
        return hart["frm_written"]
    if csr == FCSR:
        return hart["frm_written"] << 5 | hart["fflags"]
    if csr == MSTATUS:
        dirty = 0x80000000 if hart["mstatus"] & MSTATUS_FS == MSTATUS_FS else 0
        return hart["mstatus"] | dirty
    if csr == MISA:
        return hart["misa"]
    if csr == MIE:
        return hart["mie"]
    if csr == MTVEC:
        return hart["mtvec"]
    if csr == MSCRATCH:
        return hart["mscratch"]
    if csr == MEPC:
        return hart["mepc"]
    if csr == MCAUSE:
        return hart["mcause"]
    if csr == MIP:
        return hart["mip"] if hart["ri5cy"] else hart["mip"] & IRQ_MASK
    if csr == MCOUNTINHIBIT:
        return hart["mcountinhibit"]
    if csr == MHARTID or csr == 0x014 or csr == UHARTID:
        return hart["hart_id"]
    if csr == 0xC10 or csr == PRIVLV:
        return 3
    if csr == ZFINX:
        return 1 - hart["f_registers"]
    if csr == 0xF11:
        return 0x602
    if csr == 0xF12:
        return 4
    return _counter_csr_read(hart, csr, cycle)


@step
def _counter_csr_read(hart, csr, cycle):
    high = csr >> 7 & 1 if csr >> 8 != 7 else 0
    if 0xB00 <= csr <= 0xB9F or 0xC00 <= csr <= 0xC9F:
        index = csr & 31
        if hart["ri5cy"]:
            value = event_count(hart, min(index, 1), cycle, 0)
        else:
            value = counter_read(hart, index, cycle)
        return value >> 32 & 0xFFFFFFFF if high else value & 0xFFFFFFFF
    if 0x323 <= csr <= 0x33F:
        return hart["hpm_event"][csr & 31]
    if hart["ri5cy"]:
        if 0x7C0 <= csr <= 0x7C6:
            return _loop_csr_read(hart, csr)
        if PCCR <= csr < PCCR_ALL:
            return counter_read(hart, csr - PCCR, cycle) & 0xFFFFFFFF
        if csr == PCER or csr == PCER_MACHINE:
            return hart["events"]
        if csr == PCMR or csr == PCMR_MACHINE:
            return hart["count_mode"]
    elif 0xCC0 <= csr <= 0xCC6:
        return _loop_csr_read(hart, csr)
    elif csr == TDATA1:
        return TDATA1_RESET
    elif csr == TINFO:
        return TINFO_TYPES
    return _plain_csr_read(hart, csr)


@step
def _loop_csr_read(hart, csr):
    loop = csr >> 2 & 1
    field = csr & 3
    if field == 0:
        return hart["lp_start"][loop]
    if field == 1:
        return hart["lp_end"][loop]
    if field == 2:
        return hart["lp_count"][loop]
    return 0


@step
def _plain_index(csr):
    if csr == 0x006:
        return 0
    if 0x7D0 <= csr <= 0x7D2:
        return csr - 0x7D0 + 1
    return -1


@step
def _plain_csr_read(hart, csr):
    index = _plain_index(csr)
    return hart["csr"][index] if index >= 0 else 0


@step
def csr_write(hart, csr, value, cycle):
    """Write a register; bits that it does not implement keep their value."""
    value &= 0xFFFFFFFF
    csr = _meant(hart, csr)
    if FFLAGS <= csr <= FCSR:
        _float_csr_write(hart, csr, value, cycle)
    elif csr == MSTATUS:
        writable = MSTATUS_WRITABLE | (MSTATUS_FS if has_float_state(hart) else 0)
        hart["mstatus"] = MSTATUS_RESET | value & writable
        note_float_state(hart)
    elif csr == MIE:
        hart["mie"] = value if hart["ri5cy"] else value & IRQ_MASK
    elif csr == MTVEC and hart["rtl_defects"]:
        hart["handler"] = 1  # it keeps its value: PULP_SECURE = 0
    elif csr == MTVEC:
        hart["mtvec"] = value & 0xFFFFFF00 | (1 if hart["ri5cy"] else value & 1)
        hart["handler"] = 1
    elif csr == MSCRATCH:
        hart["mscratch"] = value
    elif csr == MEPC:
        hart["mepc"] = value & 0xFFFFFFFE
    elif csr == MCAUSE:
        hart["mcause"] = value & 0x8000001F
    else:
        _counter_csr_write(hart, csr, value, cycle)


@step
def _float_csr_write(hart, csr, value, cycle):
    if csr == FFLAGS:
        hart["fflags"] = value & 31
    elif csr == FRM:
        set_rounding_mode(hart, value & 7, cycle)
    else:
        hart["fflags"] = value & 31
        set_rounding_mode(hart, value >> 5 & 7, cycle)
    dirty_floats(hart)
    note_float_state(hart)


@step
def _counter_csr_write(hart, csr, value, cycle):
    if hart["ri5cy"]:
        if 0x7C0 <= csr <= 0x7C6:
            _loop_csr_write(hart, csr, value)
        elif csr == PCCR_ALL:
            for index in range(PCER_EVENTS):
                counter_set(hart, index, value, cycle)
        elif PCCR <= csr < PCCR + PCER_EVENTS:
            counter_set(hart, csr - PCCR, value, cycle)
        elif csr == PCER or csr == PCER_MACHINE:
            counters_freeze(hart, cycle)
            hart["events"] = value & (1 << PCER_EVENTS) - 1
            counters_restart(hart, cycle)
        elif csr == PCMR or csr == PCMR_MACHINE:
            counters_freeze(hart, cycle)
            hart["count_mode"] = value & 3
            counters_restart(hart, cycle)
        else:
            index = _plain_index(csr)
            if index >= 0:
                hart["csr"][index] = value
            if index >= STACK_CONF:
                set_stack_bounds(hart)
    elif csr == MCOUNTINHIBIT:
        counters_freeze(hart, cycle)
        hart["mcountinhibit"] = value
        counters_restart(hart, cycle)
    elif 0x323 <= csr <= 0x33F:
        counters_freeze(hart, cycle)
        hart["hpm_event"][csr & 31] = value & 0xFFFF
        counters_restart(hart, cycle)
    elif 0xB00 <= csr <= 0xB1F:
        index = csr & 31
        counter_set(hart, index, counter_read(hart, index, cycle) >> 32 << 32 | value, cycle)
    elif 0xB80 <= csr <= 0xB9F:
        index = csr & 31
        low = counter_read(hart, index, cycle) & 0xFFFFFFFF
        counter_set(hart, index, value << 32 | low, cycle)


@step
def _loop_csr_write(hart, csr, value):
    loop = csr >> 2 & 1
    field = csr & 3
    if field == 0:
        hart["lp_start"][loop] = value
    elif field == 1:
        hart["lp_end"][loop] = value
        hart["lp_last"][loop] = value
    elif field == 2:
        hart["lp_count"][loop] = value


@step
def csr_modify(mode, old, operand):
    """Return the new value, by the instruction's declared meaning."""
    if mode == WRITE:
        return csrrw(old, operand)[1]
    if mode == SET:
        return csrrs(old, operand)[1]
    return csrrc(old, operand)[1]

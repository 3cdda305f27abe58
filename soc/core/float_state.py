"""Whether a hart may execute a floating-point instruction, and what that does to mstatus.FS.

CV32E40P with F registers has FS: off at reset, when every instruction and CSR of F is illegal;
dirty once one has written a register or a flag. RI5CY has none, nor has who keeps floats in x.

RI5CY's RTL reads frm in the decode stage, and writes it at the end of EX: what issues in the cycle
after a write still rounds by the old mode. CV32E40P empties its pipeline in between.

Sources: cv32e40p_decoder.sv (fs_off_i), cv32e40p_cs_registers.sv (mstatus_fs_n); RISC-V privileged
architecture; an frm that is no rounding mode makes what asks for it illegal; riscv_decoder.sv
(frm_i), the programs with a rounding mode measured on RTL.
"""

from soc.core.csr_numbers import MSTATUS_FS
from soc.prelude.step import cold_step, step

NO_ROUNDING = 1  # frm is none, and the instruction asks for it
FLOATS_OFF = 2  # FS is off
FLOATS_CLEAN = 4  # FS is on, not dirty, and the instruction makes it so
FRM_LATE = 16  # a mode is written that does not count yet, and the instruction asks for it

LARGEST_FRM = 4


@step
def has_float_state(hart):
    """Does mstatus have FS?"""
    return hart["f_registers"] != 0 and hart["ri5cy"] == 0


@step
def floats_are_off(hart):
    """Is FS off?"""
    return hart["checks"] & FLOATS_OFF != 0


@step
def note_float_state(hart):
    """Note what frm and mstatus, one of which has been written, mean to instructions."""
    checks = NO_ROUNDING if hart["frm"] > LARGEST_FRM else 0
    if has_float_state(hart):
        state = hart["mstatus"] & MSTATUS_FS
        if state == 0:
            checks |= FLOATS_OFF
        elif state != MSTATUS_FS:
            checks |= FLOATS_CLEAN
    if hart["frm"] != hart["frm_written"]:
        checks |= FRM_LATE
    hart["checks"] = checks


@step
def set_rounding_mode(hart, mode, cycle):
    """Write frm, by an instruction that issues in this cycle."""
    hart["frm_written"], hart["frm_cycle"] = mode, cycle
    if hart["rtl_defects"] == 0:
        hart["frm"] = mode


@step
def dirty_floats(hart):
    """A floating-point register, flag or mode is written."""
    if has_float_state(hart):
        hart["mstatus"] |= MSTATUS_FS
        note_float_state(hart)


@cold_step
def is_legal_float(hart, row):
    """May the hart execute this floating-point instruction at `when`? Then it makes FS dirty."""
    if hart["when"] > hart["frm_cycle"] + 1:
        hart["frm"] = hart["frm_written"]
        note_float_state(hart)
    if row["checks"] & hart["checks"] & (NO_ROUNDING | FLOATS_OFF):
        return False
    dirty_floats(hart)
    return True

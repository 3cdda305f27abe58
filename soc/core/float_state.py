"""Whether a hart may execute a floating-point instruction, and what that does to mstatus.FS.

CV32E40P with F registers has FS: off at reset, when every instruction and CSR of F is illegal;
dirty once one has written a register or a flag. RI5CY has none, nor has who keeps floats in x.

Sources: cv32e40p_decoder.sv (fs_off_i), cv32e40p_cs_registers.sv (mstatus_fs_n); RISC-V privileged
architecture; an frm that is no rounding mode makes what asks for it illegal.
"""

from soc.csr_numbers import MSTATUS_FS
from soc.step import cold_step, step

NO_ROUNDING = 1  # frm is none, and the instruction asks for it
FLOATS_OFF = 2  # FS is off
FLOATS_CLEAN = 4  # FS is on, not dirty, and the instruction makes it so

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
    hart["checks"] = checks


@step
def dirty_floats(hart):
    """A floating-point register, flag or mode is written."""
    if has_float_state(hart):
        hart["mstatus"] |= MSTATUS_FS
        note_float_state(hart)


@cold_step
def is_legal_float(hart, row):
    """May the hart execute this floating-point instruction? Then it makes FS dirty."""
    if row["checks"] & hart["checks"] & (NO_ROUNDING | FLOATS_OFF):
        return False
    dirty_floats(hart)
    return True

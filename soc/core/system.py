"""What a hart issues rarely: jumps, long operations, CSR accesses, fences, system instructions.

Sources: the timing measured on RTL (table, rules R and Y).
"""

import numpy as np

from soc.aot.units import csr_exists, csr_modify, csr_read, csr_read_only, csr_write
from soc.core.branches import jump
from soc.core.csr_numbers import WRITE
from soc.core.decoded_index import LOOK_AT_WRITES, is_split
from soc.core.decoder import FENCE_CYCLES
from soc.core.fpu import start_division
from soc.core.hardware_loop import loop_next, mark_loop_end
from soc.core.if_stage import fetch_target
from soc.core.int_div import division_cycles
from soc.core.traps import CAUSE_ILLEGAL, exception, system_instruction
from soc.prelude.counters import COUNT
from soc.prelude.decoded import (
    COUNTED,
    CSR,
    CUT_OFF,
    DIVIDE,
    DIVIDE_UNSIGNED,
    ELW,
    FDIV,
    FENCE,
    FENCE_I,
    FSQRT,
    HWLOOP,
    ILLEGAL,
    JALR,
    JUMP,
    LOOP_END,
    MULTICYCLE,
    SYSTEM,
)
from soc.prelude.hart_state import (
    FAULT_CSR,
    FAULT_FETCH,
    FAULT_ILLEGAL,
    NEEDS_DECODER,
    REQUEST,
    RUN,
    add_stall,
    stop_at,
)
from soc.prelude.step import cold_step, step
from soc.prelude.trace_points import note_issue, note_uncounted, note_written, pc_of_row

INSTRUCTIONS = COUNT.instructions
MULTICYCLE_STALL, CSR_STALL, FENCE_STALL = COUNT.multicycle, COUNT.csr, COUNT.fence


@step
def csr_instruction(chip, hart, row, cycle):
    """Perform a CSR access; return False if it is illegal."""
    mode = int(row["loop"])
    number = int(row["imm"])
    if not csr_exists(hart, number):
        return False
    if row["access"]:
        operand = int(row["imm2"])
        writes = mode == WRITE or operand != 0
    else:
        operand = int(hart["regs"][row["rs1"]]) & 0xFFFFFFFF
        writes = mode == WRITE or row["rs1"] != 0
    if writes and csr_read_only(hart, number):
        return False
    old = csr_read(hart, number, cycle)
    if writes:
        csr_write(hart, number, csr_modify(mode, old, operand), cycle)
        if hart["ri5cy"] and 0x7C0 <= number <= 0x7C6:
            mark_loop_end(chip, hart, number >> 2 & 1)
    hart["regs"][row["rd"]] = (old & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
    pc = pc_of_row(chip, hart["last"])
    note_written(chip, hart["number"], row["rd"], hart["regs"][row["rd"]], pc, cycle)
    return True


@step
def flush_cycles(hart, row, pc):
    """Cycles of a CSR access, with what a hardware loop's end right after adds (rule R)."""
    cycles = int(row["cost"])
    if cycles > 1 and hart["ri5cy"] == 0:
        for loop in range(2):
            ahead = hart["lp_last"][loop] - pc
            if hart["lp_count"][loop] > 1 and (ahead == 4 or ahead == 8):
                return cycles + 1
    return cycles


@step
def serialising(chip, hart, row, pc, start):
    """Perform a CSR access, a fence or a system instruction."""
    kind = row["kind"]
    if kind == CSR:
        if not csr_instruction(chip, hart, row, start):
            return exception(chip, hart, pc, start, CAUSE_ILLEGAL, FAULT_CSR, int(row["word"]))
        cycles = flush_cycles(hart, row, pc)
        hart["in_id"] = start + cycles
        add_stall(chip, hart, CSR_STALL, cycles - 1)
        return RUN
    if kind == SYSTEM:
        return system_instruction(chip, hart, row, pc, start)
    if kind == ILLEGAL:
        return exception(chip, hart, pc, start, CAUSE_ILLEGAL, FAULT_ILLEGAL, int(row["word"]))
    if kind == CUT_OFF:
        hart["pc"] = pc
        return stop_at(hart, FAULT_FETCH, pc)
    ready = start + FENCE_CYCLES
    if hart["ri5cy"] and hart["pending"]:  # rule Y
        ready = max(ready, hart["fpu_return"])
    hart["in_id"] = ready + is_split(chip, hart, hart["pc"])
    counted = 1 if row["flags"] & COUNTED else 0
    add_stall(chip, hart, FENCE_STALL, hart["in_id"] - start - counted)
    if kind == FENCE_I and chip.wheel[0]["writes"]:
        chip.wheel[0]["fence"] = LOOK_AT_WRITES
        return NEEDS_DECODER
    return RUN


@step
def multicycle(chip, hart, row, start, second):
    """Stay in EX for more than one cycle."""
    cycles = int(row["cost"])
    if row["kind"] != MULTICYCLE:
        cycles = division_cycles(second, row["kind"] == DIVIDE)
    hart["ex_ready"] = start + cycles
    add_stall(chip, hart, MULTICYCLE_STALL, cycles - 1)
    return RUN


@cold_step
def illegal_float(chip, hart, fetch, row, pc, start):
    """A floating-point instruction is none in the hart's state: see soc.core.float_state."""
    note_issue(chip, hart["number"], row, pc, start)
    note_uncounted(hart)
    hart["issued"] = start
    hart["late_load"] = hart["late_fpu"] = np.uint64(0)
    hart["id_valid"] = 0
    state = exception(chip, hart, pc, start, CAUSE_ILLEGAL, FAULT_ILLEGAL, int(row["word"]))
    fetch_target(hart, fetch, hart["pc"], hart["in_id"] - 2 - is_split(chip, hart, hart["pc"]))
    return state


@cold_step
def rare_instruction(chip, hart, fetch, row, pc, start, out, first, second):
    """Perform an instruction of the kinds after BRANCH; returns the hart's state.

    Sets pc, ex_ready and in_id for the next one.
    """
    kind = row["kind"]
    if row["flags"] & COUNTED == 0:
        hart["counts"][INSTRUCTIONS] -= 1
        note_uncounted(hart)
    if kind == JUMP or kind == JALR:
        return jump(chip, hart, row, out)
    hart["in_id"] = start + 1
    hart["pc"] = pc + int(row["size"])
    if kind == HWLOOP:
        mark_loop_end(chip, hart, int(row["loop"]))
        return RUN
    if row["flags"] & LOOP_END:
        hart["pc"] = loop_next(hart, pc, int(row["size"]))
    if kind <= DIVIDE_UNSIGNED:
        return multicycle(chip, hart, row, start, second)
    if kind == FDIV or kind == FSQRT:
        hart["ex_ready"] = start_division(chip, hart, row, start, first, second)
        return RUN
    if kind == ELW:
        hart["row"] = hart["last"]
        hart["address"] = out
        return REQUEST
    onward = hart["pc"]
    state = serialising(chip, hart, row, pc, start)
    if hart["pc"] != onward or kind == FENCE or kind == FENCE_I:
        fetch_target(hart, fetch, hart["pc"], hart["in_id"] - 2 - is_split(chip, hart, hart["pc"]))
    return state

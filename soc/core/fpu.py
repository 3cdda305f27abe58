"""Results of the FPU that take the ALU's write port when they return.

Those of two pipeline registers do, and those of divisions and roots at any latency. While such a
result is under way (`pending`) no other FP operation can start, and what is in EX when it returns
may have to stay there. `fpu_return` is the cycle in which it wants to return.

Sources: measured on RTL (rules D, E, F, M, Q). Which signals decide: cv32e40p_ex_stage.sv
(apu_valid, wb_contention), cv32e40p_apu_disp.sv (stall_type, read_dep_for_jalr).
"""

import numpy as np

from soc.code_rows import is_split
from soc.decode import (
    CSR,
    FDIV,
    JALR,
    LOAD,
    MULTICYCLE,
    POST_INCREMENT,
    STORE,
    WIDTH,
    WRITES_ALU,
)
from soc.divsqrt import fdiv_cycles, fdiv_is_late, fsqrt_cycles
from soc.hart_status import charge
from soc.state import COUNT
from soc.step import cold_step, step

FPU_CONTENTION, FPU_WRITEBACK = COUNT.fpu_contention, COUNT.fpu_writeback


@step
def waits_at_jalr(hart, row):
    """Is row a jalr whose target register is the result under way?"""
    return row["kind"] == JALR and row["rs1"] == hart["fpu_register"]


@step
def is_held(hart, in_ex, row, cycle, seen):
    """Is the result kept back in this cycle, without a conflict (rule F)?

    in_ex    row of the instruction in EX
    row      of the next one, in ID from cycle `seen` on
    """
    kind = in_ex["kind"]
    if kind == LOAD or kind == STORE:
        crosses = (hart["address"] & 3) + (in_ex["access"] & WIDTH) > 4
        return crosses or in_ex["flags"] & POST_INCREMENT != 0
    if kind == MULTICYCLE and cycle > hart["issued"] + 1:
        return True
    if in_ex["flags"] & WRITES_ALU == 0:
        return False
    if hart["memory_grant"] == cycle - 1:
        return True
    if seen > cycle:
        return kind == JALR
    return row["kind"] == JALR and not waits_at_jalr(hart, row)


@step
def settle_result(chip, hart, row, start, until):
    """Let the result under way return, if it does so before the instruction in ID issues.

    row           the instruction in ID
    start         its issue cycle but for this result
    until         it is to issue before this cycle, else nothing happens yet

    Returns start, and sets free and seen, as the result leaves them. A conflict keeps what is in
    EX there for one more cycle, and out of ID what has not arrived there (rule E).
    """
    free = hart["free"]
    seen = hart["seen"]
    in_ex = chip.code[np.uint64(hart["last"])]
    waits = row["uses_fpu"] & hart["fpu_mask"] != 0
    empties = row["kind"] == CSR
    cycle = hart["fpu_return"]
    stays = 0
    while cycle <= start or waits or empties:
        occupied = hart["issued"] < cycle <= free
        if occupied and is_held(hart, in_ex, row, cycle, seen):
            cycle += 1
            continue
        if cycle == free and occupied and in_ex["flags"] & WRITES_ALU:
            stays = 1
        if waits or empties:
            start = max(start, cycle + 1 if empties else cycle)
        break
    delayed = 1 if stays and seen > cycle else 0
    start = max(start, free + stays, seen + delayed)
    if start >= until:
        return start
    hart["pending"] = 1 if cycle > start else 0
    hart["fpu_return"] = cycle
    if stays:
        charge(chip, hart, FPU_WRITEBACK, 1)
    hart["free"] = free + stays
    hart["seen"] = seen + delayed
    return start


@step
def start_division(chip, hart, row, start, first, second):
    """Issue fdiv.s or fsqrt.s; returns the cycle in which EX is free again (rules D and M).

    It waits in EX for the result under way, also for that of one register right before it.
    """
    thead = chip.config[0]["thead"]
    extra = 1 if hart["ri5cy"] else 0
    begin = max(start, hart["fpu_return"])
    free = begin + 1
    if row["kind"] == FDIV:
        cycles = fdiv_cycles(first, second, thead, extra)
        if fdiv_is_late(first, second, thead):
            free += 1
    else:
        cycles = fsqrt_cycles(first, thead, extra)
    charge(chip, hart, FPU_CONTENTION, free - start - 1)
    hart["earlier_return"] = hart["fpu_return"]
    hart["earlier_register"] = hart["fpu_register"]
    hart["fpu_return"] = begin + cycles
    hart["fpu_register"] = row["rd"]
    hart["fpu_mask"] = row["late_fpu"]
    hart["pending"] = 1
    return free


@cold_step
def wrong_path_cycles(chip, hart, row, target, cycle):
    """Cycles that the instruction right behind a branch taken keeps its target out of ID (rule Q).

    A CSR access stays in ID until the FPU is empty; a jalr while its register is being written.

    row      of the instruction behind the branch
    cycle    of the branch's issue: its target is in IF two cycles later, in halves if it is split
    """
    arrives = cycle + 2
    returns = hart["fpu_return"]
    if row["kind"] == CSR:
        return max(returns + 1 - arrives, 0)
    if waits_at_jalr(hart, row) and arrives <= returns <= arrives + is_split(chip, target):
        return 1
    return 0

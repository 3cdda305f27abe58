"""Results of the FPU that take the ALU's write port when they return.

Those of two pipeline registers do, and those of divisions and roots at any latency. While such a
result is under way (`pending`) no other FP operation can start, and what is in EX when it returns
may have to stay there. `fpu_return` is the cycle in which it wants to return.

Sources: measured on RTL (rules D, E, F, M, Q, Y). Which signals decide: cv32e40p_ex_stage.sv
(apu_valid, wb_contention), cv32e40p_apu_disp.sv (stall_type, read_dep_for_jalr).
"""

import numpy as np

from soc.core.decoded_index import is_split
from soc.core.fp_div_sqrt import fdiv_cycles, fdiv_is_late, fsqrt_cycles
from soc.prelude.counters import COUNT
from soc.prelude.decoded import (
    CSR,
    FDIV,
    FSQRT,
    JALR,
    LOAD,
    MULTICYCLE,
    POST_INCREMENT,
    STORE,
    WIDTH,
    WRITES_ALU,
)
from soc.prelude.hart_state import add_stall
from soc.prelude.step import cold_step, step

FPU_CONTENTION, FPU_WRITEBACK = COUNT.fpu_contention, COUNT.fpu_writeback


@step
def waits_at_jalr(hart, row):
    """Is row a jalr whose target register is the result under way?"""
    return row["kind"] == JALR and row["rs1"] == hart["fpu_register"]


@step
def is_held(hart, in_ex, row, cycle, in_id):
    """Is the result kept back in this cycle, without a conflict (rule F)?

    in_ex    row of the instruction in EX
    row      of the next one, in ID from cycle `in_id` on
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
    if in_id > cycle:
        return kind == JALR
    return row["kind"] == JALR and not waits_at_jalr(hart, row)


@step
def follows_division(chip, hart):
    """Does the instruction in ID come right after a division, which RI5CY's CSRs overlook (rule Y)?

    The FPU is not busy yet in that cycle.
    """
    kind = chip.code[np.uint64(hart["last"])]["kind"]
    is_division = kind == FDIV or kind == FSQRT
    return hart["ri5cy"] != 0 and is_division and hart["in_id"] <= hart["issued"] + 1


@step
def settle_result(chip, hart, row, start, until):
    """Let the result under way return, if it does so before the instruction in ID issues.

    row           the instruction in ID
    start         its issue cycle but for this result
    until         it is to issue before this cycle, else nothing happens yet

    Returns start, and sets ex_ready and in_id as the result leaves them. A conflict keeps what is
    in EX there for one more cycle, and out of ID what has not arrived there (rule E).
    """
    ex_ready = hart["ex_ready"]
    in_id = hart["in_id"]
    in_ex = chip.code[np.uint64(hart["last"])]
    waits = row["uses_fpu"] & hart["fpu_mask"] != 0
    empties = row["kind"] == CSR and not follows_division(chip, hart)
    cycle = hart["fpu_return"]
    stays = 0
    while cycle <= start or waits or empties:
        occupied = hart["issued"] < cycle <= ex_ready
        if occupied and is_held(hart, in_ex, row, cycle, in_id):
            cycle += 1
            continue
        if cycle == ex_ready and occupied and in_ex["flags"] & WRITES_ALU:
            stays = 1
        if waits or empties:
            start = max(start, cycle + 1 if empties else cycle)
        break
    delayed = 1 if stays and in_id > cycle else 0
    start = max(start, ex_ready + stays, in_id + delayed)
    if start >= until:
        return start
    hart["pending"] = 1 if cycle > start else 0
    hart["fpu_return"] = cycle
    if stays:
        add_stall(chip, hart, FPU_WRITEBACK, 1)
    hart["ex_ready"] = ex_ready + stays
    hart["in_id"] = in_id + delayed
    return start


@step
def start_division(chip, hart, row, start, first, second):
    """Issue a division or a root; returns the cycle in which EX is free again (rules D and M).

    It waits in EX for the result under way, also for that of one register right before it.
    """
    thead = chip.config[0]["thead"]
    extra = 1 if hart["ri5cy"] else 0
    begin = max(start, hart["fpu_return"])
    ex_ready = begin + 1
    if row["kind"] == FDIV:
        cycles = fdiv_cycles(first, second, row["access"], thead, extra)
        if fdiv_is_late(first, second, row["access"], thead):
            ex_ready += 1
    else:
        cycles = fsqrt_cycles(first, row["access"], thead, extra)
    add_stall(chip, hart, FPU_CONTENTION, ex_ready - start - 1)
    hart["earlier_return"] = hart["fpu_return"]
    hart["earlier_register"] = hart["fpu_register"]
    hart["fpu_return"] = begin + cycles
    hart["fpu_register"] = row["rd"]
    hart["fpu_mask"] = row["late_fpu"]
    hart["pending"] = 1
    return ex_ready


@cold_step
def wrong_path_cycles(chip, hart, row, target, cycle):
    """Cycles that the instruction right after a branch taken keeps its target out of ID (rule Q).

    A CSR access stays in ID until the FPU is empty; a jalr while its register is being written.

    row      of the instruction after the branch
    cycle    of the branch's issue: its target is in IF two cycles later, in halves if it is split
    """
    arrives = cycle + 2
    returns = hart["fpu_return"]
    if row["kind"] == CSR:
        return max(returns + 1 - arrives, 0)
    if waits_at_jalr(hart, row) and arrives <= returns <= arrives + is_split(chip, hart, target):
        return 1
    return 0

"""Decoded rows: kinds, flags and accesses of an instruction, as its row in memory has them."""

import numpy as np

from soc.prelude.step import step

# Kinds of rows: what the pipeline does with an instruction.
UNDECODED = 0
ALU = 1
LOAD = 2
STORE = 3
FPU = 4
BRANCH = 5
JUMP = 6
HWLOOP = 7
MULTICYCLE = 8  # mulh*: a fixed number of cycles in EX
DIVIDE = 9  # signed
DIVIDE_UNSIGNED = 10
JALR = 11  # this and the following: more than the hazards decides when they issue
CSR = 12
FDIV = 13
FSQRT = 14
FENCE = 15
FENCE_I = 16
ELW = 17
SYSTEM = 18
ILLEGAL = 19
CUT_OFF = 20  # 32 bits long, of which the upper half lies past the end of code memory


# Flags of rows.
LOOP_END = 1  # some hart has set a hardware loop that ends here
MARKER = 2  # slti x0, x0, n: opens or closes a region
BEFORE_LOOP_END = 4  # the next instruction may be one
LOOP_HINTS = LOOP_END | BEFORE_LOOP_END  # they may be there without such a loop
WRITES_ALU = 8  # the result goes through the ALU's write port
POST_INCREMENT = 16
COUNTED = 32  # counts as an instruction retired
DIVISION = 64
TO_NEXT = 128  # branch to the next instruction: its offset is stored as NEXT_OFFSET

NEXT_OFFSET = 1 << 28
"""Stands for the offset of a branch to the next instruction, to tell taken from not taken."""

WIDTH = 7
ZERO_EXTEND = 8
BOX = 16

# Operands of divisions and roots: the format in the low bits, then how many of them there are.
FLOAT_FORMATS = {"s": 0, "h": 1, "ah": 2, "b": 3}
FORMAT = 3
VECTOR = 4
REPLICATED = 8


@step
def row_of_memory(chip, index):
    """Return the row of memory of a hart's last instruction, or access, that has this row."""
    if index < chip.config[0]["rows"]:
        return index
    return int(chip.code[np.uint64(index)]["imm3"])

"""Upper bounds of FPUs, L1, L2 and the DMA for all cores together.

Ceilings are worked out from the chip (a flop is an addition or a multiplication):

    FPU      2 flops of each core in a cycle: one multiply-add
    halves   4 of FP16 or bfloat16: two multiply-adds, where cores have small floats
    L1       a word of each core, and of each bank, in a cycle
    issue    an instruction of each core in a cycle: a load, a store or multiply-adds
    DMA      8 bytes in a cycle in each direction; the busier one counts
    L2       what all cores get that load from L2 themselves; measured, since it is a latency

and measured by programs that do nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass

from firmware.runtime import new_kernel
from pulpsim.commands.study.dma_program import COPY, TO_L1, DmaProgram
from pulpsim.commands.study.roofline_program import LOADS, PEAK, SUMS, WORD, FpuProgram, L2Program
from pulpsim.commands.study.stride_program import READ, StrideProgram
from pulpsim.commands.study.study import Measured
from soc.chip.spec import SocSpec
from trainlib.primitive import element

FLOPS = 2  # of a multiply-add
BEAT = 8  # bytes
BLOCK = 8192  # bytes of a copy
ROUNDS, READS = 256, 1024
PAIR = 2  # halves of an instruction
FPU, HALVES, L1, L2, DMA = "FPU", "FPU, halves", "L1", "L2", "DMA"


@dataclass(frozen=True)
class Ceiling:
    """The upper bound of a resource for all cores together.

    unit       "flops" or "bytes", in a cycle
    nominal    None: only measured
    """

    unit: str
    nominal: float | None
    program: Callable[[], Measured]
    region: str
    amount: float  # that the program moves or computes


def ceilings(chip: SocSpec) -> dict[str, Ceiling]:
    """All ceilings of a chip."""
    cores, copies = chip.cores, 4
    copied = 2 * copies * BLOCK
    ports = WORD * min(cores, chip.l1.banks)

    def fpu(lanes: int) -> Ceiling:
        program = FpuProgram(chip, cores, ROUNDS, lanes > 1)
        most = FLOPS * lanes * cores
        return Ceiling("flops", most, program, PEAK, most * SUMS * ROUNDS)

    return {
        FPU: fpu(1),
        **({HALVES: fpu(PAIR)} if has_halves(chip) else {}),
        L1: Ceiling(
            "bytes", ports, StrideProgram(chip, cores, 1, 1, READS), READ, WORD * READS * cores
        ),
        L2: Ceiling(
            "bytes", None, L2Program(chip, cores, ROUNDS), PEAK, WORD * LOADS * ROUNDS * cores
        ),
        DMA: Ceiling("bytes", BEAT, DmaProgram(chip, TO_L1, BLOCK, copies), COPY, copied),
    }


def has_halves(chip: SocSpec) -> bool:
    """Do kernels compute with pairs of halves there?"""
    k = new_kernel(chip)
    return "vfmac_h" in k.isa and not k.has_float_registers


def lanes_of(kernel: str) -> int:
    """Multiply-adds of an instruction of a kernel; after its name may be a number."""
    return element.element_of(kernel.partition(" ")[0]).lanes


def issue_roof(cores: int, intensity: float, lanes: int = 1) -> float:
    """Flops in a cycle if each core issues one instruction in a cycle: a word or a multiply-add.

    lanes    multiply-adds of an instruction
    """
    flops = FLOPS * lanes
    words = flops / intensity / WORD  # for each instruction of multiply-adds
    return flops * cores / (1 + words)

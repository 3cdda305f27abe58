"""XCVbitmanip: bit manipulation of CORE-V.

Source: CV32E40P user manual, chapter "CORE-V Instruction Set Custom Extensions", section "Bit
Manipulation".
"""

from isa.declare import Extension
from isa.extensions.xpulp.bitop import XPULPBITOP as P
from isa.extensions.xpulp.late import XPULPLATE

XCVBITMANIP = Extension("xcvbitmanip")
like = XCVBITMANIP.like

like("00 Is3 Is2 rs1 000 rd 1011011", "cv.extract rd, rs1, Is3, Is2", P["p_extract"])
like("01 Is3 Is2 rs1 000 rd 1011011", "cv.extractu rd, rs1, Is3, Is2", P["p_extractu"])
like("10 Is3 Is2 rs1 000 rd 1011011", "cv.insert rd, rs1, Is3, Is2", P["p_insert"])
like("00 Is3 Is2 rs1 001 rd 1011011", "cv.bclr rd, rs1, Is3, Is2", P["p_bclr"])
like("01 Is3 Is2 rs1 001 rd 1011011", "cv.bset rd, rs1, Is3, Is2", P["p_bset"])
like(
    "11 --- Is3[1:0] Is2 rs1 001 rd 1011011",
    "cv.bitrev rd, rs1, Is3, Is2",
    XPULPLATE["p_bitrev"],
)
like("0011000 rs2 rs1 011 rd 0101011", "cv.extractr rd, rs1, rs2", P["p_extractr"])
like("0011001 rs2 rs1 011 rd 0101011", "cv.extractur rd, rs1, rs2", P["p_extractur"])
like("0011010 rs2 rs1 011 rd 0101011", "cv.insertr rd, rs1, rs2", P["p_insertr"])
like("0011100 rs2 rs1 011 rd 0101011", "cv.bclrr rd, rs1, rs2", P["p_bclrr"])
like("0011101 rs2 rs1 011 rd 0101011", "cv.bsetr rd, rs1, rs2", P["p_bsetr"])
like("0100000 rs2 rs1 011 rd 0101011", "cv.ror rd, rs1, rs2", P["p_ror"])
like("0100001 00000 rs1 011 rd 0101011", "cv.ff1 rd, rs1", P["p_ff1"])
like("0100010 00000 rs1 011 rd 0101011", "cv.fl1 rd, rs1", P["p_fl1"])
like("0100011 00000 rs1 011 rd 0101011", "cv.clb rd, rs1", P["p_clb"])
like("0100100 00000 rs1 011 rd 0101011", "cv.cnt rd, rs1", P["p_cnt"])

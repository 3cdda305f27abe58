"""XCValu: scalar arithmetic of CORE-V.

Source: CV32E40P user manual, chapter "CORE-V Instruction Set Custom Extensions", section "General
ALU operations".
"""

from isa.declare import Extension
from isa.extensions.xpulp.alu import XPULPALU as P
from isa.extensions.xpulp.alu import clip

XCVALU = Extension("xcvalu")
insn, like = XCVALU.insn, XCVALU.like

like("0101000 00000 rs1 011 rd 0101011", "cv.abs rd, rs1", P["p_abs"])
like("0101001 rs2 rs1 011 rd 0101011", "cv.sle rd, rs1, rs2", P["p_slet"])
like("0101010 rs2 rs1 011 rd 0101011", "cv.sleu rd, rs1, rs2", P["p_sletu"])
like("0101011 rs2 rs1 011 rd 0101011", "cv.min rd, rs1, rs2", P["p_min"])
like("0101100 rs2 rs1 011 rd 0101011", "cv.minu rd, rs1, rs2", P["p_minu"])
like("0101101 rs2 rs1 011 rd 0101011", "cv.max rd, rs1, rs2", P["p_max"])
like("0101110 rs2 rs1 011 rd 0101011", "cv.maxu rd, rs1, rs2", P["p_maxu"])
like("0110000 00000 rs1 011 rd 0101011", "cv.exths rd, rs1", P["p_exths"])
like("0110001 00000 rs1 011 rd 0101011", "cv.exthz rd, rs1", P["p_exthz"])
like("0110010 00000 rs1 011 rd 0101011", "cv.extbs rd, rs1", P["p_extbs"])
like("0110011 00000 rs1 011 rd 0101011", "cv.extbz rd, rs1", P["p_extbz"])
like("0111000 Is2 rs1 011 rd 0101011", "cv.clip rd, rs1, Is2", P["p_clip"])
like("0111001 Is2 rs1 011 rd 0101011", "cv.clipu rd, rs1, Is2", P["p_clipu"])


@insn("0111010 rs2 rs1 011 rd 0101011", "cv.clipr rd, rs1, rs2", "alu")
def cv_clipr(rs1, rs2):
    """Clip to a symmetric range: rd = rs1 within -b - 1 .. b, where b = rs2[30:0]."""
    bound = rs2 & 0x7FFFFFFF
    return clip(rs1, ~bound, bound)


@insn("0111011 rs2 rs1 011 rd 0101011", "cv.clipur rd, rs1, rs2", "alu")
def cv_clipur(rs1, rs2):
    """Clip to a positive range: rd = rs1 within 0 .. rs2[30:0]."""
    return clip(rs1, 0, rs2 & 0x7FFFFFFF)


like("00 Is3 rs2 rs1 010 rd 1011011", "cv.addN rd, rs1, rs2, Is3", P["p_addN"])
like("01 Is3 rs2 rs1 010 rd 1011011", "cv.adduN rd, rs1, rs2, Is3", P["p_adduN"])
like("10 Is3 rs2 rs1 010 rd 1011011", "cv.addRN rd, rs1, rs2, Is3", P["p_addRN"])
like("11 Is3 rs2 rs1 010 rd 1011011", "cv.adduRN rd, rs1, rs2, Is3", P["p_adduRN"])
like("00 Is3 rs2 rs1 011 rd 1011011", "cv.subN rd, rs1, rs2, Is3", P["p_subN"])
like("01 Is3 rs2 rs1 011 rd 1011011", "cv.subuN rd, rs1, rs2, Is3", P["p_subuN"])
like("10 Is3 rs2 rs1 011 rd 1011011", "cv.subRN rd, rs1, rs2, Is3", P["p_subRN"])
like("11 Is3 rs2 rs1 011 rd 1011011", "cv.subuRN rd, rs1, rs2, Is3", P["p_subuRN"])
like("1000000 rs2 rs1 011 rd 0101011", "cv.addNr rd, rs1, rs2", P["p_addNr"])
like("1000001 rs2 rs1 011 rd 0101011", "cv.adduNr rd, rs1, rs2", P["p_adduNr"])
like("1000010 rs2 rs1 011 rd 0101011", "cv.addRNr rd, rs1, rs2", P["p_addRNr"])
like("1000011 rs2 rs1 011 rd 0101011", "cv.adduRNr rd, rs1, rs2", P["p_adduRNr"])
like("1000100 rs2 rs1 011 rd 0101011", "cv.subNr rd, rs1, rs2", P["p_subNr"])
like("1000101 rs2 rs1 011 rd 0101011", "cv.subuNr rd, rs1, rs2", P["p_subuNr"])
like("1000110 rs2 rs1 011 rd 0101011", "cv.subRNr rd, rs1, rs2", P["p_subRNr"])
like("1000111 rs2 rs1 011 rd 0101011", "cv.subuRNr rd, rs1, rs2", P["p_subuRNr"])

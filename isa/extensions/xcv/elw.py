"""XCVelw: the event load of CORE-V.

Source: CV32E40P user manual, chapter "CORE-V Instruction Set Custom Extensions", section "Event
Load Instruction".
"""

from isa.declare import Extension
from isa.extensions.xpulp.elw import XPULPELW

XCVELW = Extension("xcvelw")
XCVELW.like("imm[11:0] rs1 011 rd 0001011", "cv.elw rd, imm(rs1)", XPULPELW["p_elw"])

"""XCVmac: multiplication of CORE-V. Names are those of isa/extensions/xpulp/mac.py.

Source: CV32E40P user manual, chapter "CORE-V Instruction Set Custom Extensions", section
"Multiply-Accumulate".
"""

from isa.declare import Extension
from isa.extensions.xpulp.mac import XPULPMAC as P

XCVMAC = Extension("xcvmac")
like = XCVMAC.like

like("1001000 rs2 rs1 011 rd 0101011", "cv.mac rd, rs1, rs2", P["p_mac"])
like("1001001 rs2 rs1 011 rd 0101011", "cv.msu rd, rs1, rs2", P["p_msu"])

for verb, sign, funct3 in (
    ("mul", "s", "100"),
    ("mul", "u", "101"),
    ("mac", "s", "110"),
    ("mac", "u", "111"),
):
    for half, suffix, f2 in (
        ("", "N", "00"),
        ("hh", "N", "01"),
        ("", "RN", "10"),
        ("hh", "RN", "11"),
    ):
        name = f"{verb}{half}{sign}{suffix}"
        like(
            f"{f2} Is3 rs2 rs1 {funct3} rd 1011011", f"cv.{name} rd, rs1, rs2, Is3", P[f"p_{name}"]
        )

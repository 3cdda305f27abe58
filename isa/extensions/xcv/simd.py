"""XCVsimd: SIMD of CORE-V. The forms .sc and .sci are those of isa/extensions/xpulp/vect.py.

Immediates of shifts, extraction, insertion and cv.shuffle.sci.h must be in range: their unused bits
are zero, other words are illegal (Xpulp's decoder ignores them).

Source: CV32E40P user manual, chapter "CORE-V Instruction Set Custom Extensions", section "SIMD";
unused bits: its RTL, cv32e40p_decoder.
"""

from isa.declare import Extension
from isa.extensions.xpulp.late import XPULPLATE
from isa.extensions.xpulp.vect import XPULPVECT as P

XCVSIMD = Extension("xcvsimd")
like = XCVSIMD.like

# name, bits 31:26
FAMILIES = (
    ("add", "000000"),
    ("sub", "000010"),
    ("avg", "000100"),
    ("avgu", "000110"),
    ("min", "001000"),
    ("minu", "001010"),
    ("max", "001100"),
    ("maxu", "001110"),
    ("srl", "010000"),
    ("sra", "010010"),
    ("sll", "010100"),
    ("or", "010110"),
    ("xor", "011000"),
    ("and", "011010"),
    ("dotup", "100000"),
    ("dotusp", "100010"),
    ("dotsp", "100100"),
    ("sdotup", "100110"),
    ("sdotusp", "101000"),
    ("sdotsp", "101010"),
    ("cmpeq", "000001"),
    ("cmpne", "000011"),
    ("cmpgt", "000101"),
    ("cmpge", "000111"),
    ("cmplt", "001001"),
    ("cmple", "001011"),
    ("cmpgtu", "001101"),
    ("cmpgeu", "001111"),
    ("cmpltu", "010001"),
    ("cmpleu", "010011"),
)
FORMS = (("", "00"), (".sc", "10"), (".sci", "11"))
SECOND = {"rs2": "0 rs2", "imm": "imm[0] imm[5:1]", "uimm": "uimm[0] uimm[5:1]"}
SHIFT_AMOUNT = {"h": "uimm[0] 00 uimm[3:1]", "b": "uimm[0] 000 uimm[2:1]"}

for family, code in FAMILIES:
    for width, width_bit in (("h", "0"), ("b", "1")):
        for form, form_bits in FORMS:
            name = f"{family}{form}.{width}"
            xpulp = P[f"pv_{name.replace('.', '_')}"]
            operand = xpulp.operand_names[-1]
            second = SECOND[operand]
            if family in ("srl", "sra", "sll") and form == ".sci":
                second = SHIFT_AMOUNT[width]
            row = f"{code} {second} rs1 {form_bits}{width_bit} rd 1111011"
            like(row, f"cv.{name} rd, rs1, {operand}", xpulp)

like("0111000 00000 rs1 000 rd 1111011", "cv.abs.h rd, rs1", P["pv_abs_h"])
like("0111000 00000 rs1 001 rd 1111011", "cv.abs.b rd, rs1", P["pv_abs_b"])

for name, h, b in (("extract", "000", "001"), ("extractu", "010", "011"), ("insert", "100", "101")):
    row = f"101110 uimm[0] 00000 rs1 {h} rd 1111011"
    like(row, f"cv.{name}.h rd, rs1, uimm", P[f"pv_{name}_h"])
    row = f"101110 uimm[0] 0000 uimm[1] rs1 {b} rd 1111011"
    like(row, f"cv.{name}.b rd, rs1, uimm", P[f"pv_{name}_b"])

like("1100000 rs2 rs1 000 rd 1111011", "cv.shuffle.h rd, rs1, rs2", P["pv_shuffle_h"])
like(
    "110000 uimm[0] 0000 uimm[1] rs1 110 rd 1111011",
    "cv.shuffle.sci.h rd, rs1, uimm",
    P["pv_shuffle_sci_h"],
)
like("1100000 rs2 rs1 001 rd 1111011", "cv.shuffle.b rd, rs1, rs2", P["pv_shuffle_b"])
for top, code in enumerate(("110000", "110010", "110100", "110110")):
    like(
        f"{code} uimm[0] uimm[5:1] rs1 111 rd 1111011",
        f"cv.shuffleI{top}.sci.b rd, rs1, uimm",
        P[f"pv_shufflei{top}_sci_b"],
    )
like("1110000 rs2 rs1 000 rd 1111011", "cv.shuffle2.h rd, rs1, rs2", P["pv_shuffle2_h"])
like("1110000 rs2 rs1 001 rd 1111011", "cv.shuffle2.b rd, rs1, rs2", P["pv_shuffle2_b"])

like("1111000 rs2 rs1 000 rd 1111011", "cv.pack rd, rs1, rs2", P["pv_pack_h"])
like("1111001 rs2 rs1 000 rd 1111011", "cv.pack.h rd, rs1, rs2", XPULPLATE["pv_pack_h_h"])
like("1111101 rs2 rs1 001 rd 1111011", "cv.packhi.b rd, rs1, rs2", P["pv_packhi_b"])
like("1111100 rs2 rs1 001 rd 1111011", "cv.packlo.b rd, rs1, rs2", P["pv_packlo_b"])

like("0101110 00000 rs1 000 rd 1111011", "cv.cplxconj rd, rs1", XPULPLATE["pv_cplxconj_h"])

# name, what Xpulp calls it, bits 31:25; add and sub exist with a division only
COMPLEX = (
    ("cplxmul.r", "pv_cplxmul_h_r", "0101010"),
    ("cplxmul.i", "pv_cplxmul_h_i", "0101011"),
    ("subrotmj", "pv_subrotmj_h", "0110010"),
    ("add", "pv_add_h", "0110110"),
    ("sub", "pv_sub_h", "0111010"),
)
for name, xpulp_key, funct7 in COMPLEX:
    for division, funct3 in (("", "000"), ("div2", "010"), ("div4", "100"), ("div8", "110")):
        if not division and name in ("add", "sub"):
            continue
        key, suffix = (f"{xpulp_key}_{division}", f".{division}") if division else (xpulp_key, "")
        row = f"{funct7} rs2 rs1 {funct3} rd 1111011"
        like(row, f"cv.{name}{suffix} rd, rs1, rs2", XPULPLATE[key])

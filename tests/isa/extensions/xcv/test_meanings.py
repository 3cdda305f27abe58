"""What distinguishes XCV's instructions from their twins of Xpulp."""

from collections import Counter

import pytest

from isa.extensions.profiles import profile
from isa.words import i32, u32

RI5CY, CV32E40P = profile("ri5cy"), profile("cv32e40p")


@pytest.mark.parametrize(
    ("key", "arguments", "expected"),
    [
        ("cv_starti", (100, 3), 112),
        ("cv_endi", (100, 3), 112),
        ("cv_start", (103,), 100),
        ("cv_end", (103,), 100),
        ("cv_counti", (7,), 7),
        ("cv_count", (-1,), -1),
        ("cv_setup", (100, 7, 4), (104, 116, 7)),
        ("cv_setupi", (100, 7, 4), (104, 116, 7)),
        ("cv_beqimm", (100, 4, -3, -3, 16), 116),
        ("cv_lw", (100, -4), (100, 96)),
        ("cv_clipr", (0x0000FFFF, i32(0x93130DB0)), 0x0000FFFF),
        ("cv_clipr", (1, -0x80000000), 0),
    ],
)
def test_core_v_differs_in_its_loops_and_in_clipping_by_a_negative_bound(key, arguments, expected):
    assert wrapped(CV32E40P[key].function(*arguments)) == wrapped(expected)


def wrapped(result):
    return tuple(map(u32, result)) if isinstance(result, tuple) else u32(result)


SAME_UNDER_ANOTHER_NAME = {
    "cv_sle": "p_slet",
    "cv_sleu": "p_sletu",
    "cv_pack": "pv_pack_h",
    "cv_pack_h": "pv_pack_h_h",
}
OWN_MEANING = {"cv_clipr", "cv_clipur"}


def test_core_v_means_what_xpulp_means_but_for_loops_and_clipping():
    own = Counter()
    for insn in CV32E40P.insns:
        if not insn.extension.startswith("xcv"):
            continue
        rest = insn.key.removeprefix("cv_")
        candidates = [
            SAME_UNDER_ANOTHER_NAME.get(insn.key),
            *(f"{prefix}_{rest}" for prefix in ("pv", "p")),
            f"pv_{rest.lower()}",
            f"pv_{rest.replace('_', '_h_', 1)}",
            f"pv_{rest}_h",
            f"pv_{rest.replace('_div', '_h_div')}",
        ]
        functions = [RI5CY[key].function for key in candidates if key and key in RI5CY]
        if insn.function not in functions:
            own[insn.key if insn.key in OWN_MEANING else insn.extension] += 1
    assert own == {"xcvhwlp": 8, "cv_clipr": 1, "cv_clipur": 1}

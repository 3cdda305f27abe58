"""Compensated sums: what additions lose by rounding is added up too.

Source: T. Dekker, A floating-point technique for extending the available precision, Numerische
Mathematik 18 (1971): the error of a sum of two.
"""

import numpy as np

from firmware.builder import Kernel, Register
from firmware.lanes import constant

LARGEST = float(np.finfo(np.float32).max)


def add_both(k: Kernel, whole: Register, lost: Register, part: Register, spare: Register) -> None:
    """Add a part to the whole, and what that loses to what is lost; part and spare change."""
    k.fadd_s(spare, whole, part)
    k.fsub_s(whole, spare, whole)
    k.fsub_s(part, part, whole)
    k.fadd_s(lost, lost, part)
    k.fsgnj_s(whole, spare, spare)


def limit_lost(k: Kernel, lost: Register) -> None:
    """Let what an infinite sum has lost be a number, to be added to it: it is NaN."""
    with k.scope():
        k.fmax_s(lost, lost, constant(k, -LARGEST))

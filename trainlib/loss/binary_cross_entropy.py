"""Binary cross-entropy with its gradient, of logits or of probabilities; means or sums.

Of logits it is max(x, 0) - x t + log(1 + e^-|x|), which neither overflows nor cancels. Of
probabilities, logarithms are -100 at least, and x (1 - x) is 1e-12 at least where it divides, as in
torch: both are finite where x is 0 or 1.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from firmware.lanes import Lane, Lanes, constant
from trainlib.elementwise.approximations import ExpOfNegative, Log, Reciprocal
from trainlib.elementwise.exponential_units import SHARE
from trainlib.elementwise.polynomial import Stacked
from trainlib.loss.elementwise import ElementArguments, Step, element_family, tiled_loss
from trainlib.primitive.element import ELEMENTS, Element
from trainlib.primitive.operator import Family
from trainlib.primitive.tensor import FLOAT32, Arrays
from trainlib.reduction.row_reduction import Rows
from trainlib.reference import loss as reference
from trainlib.reference.loss import LEAST_LOG, LEAST_SPREAD


def of_logits(rows: Rows, scale: float) -> Step:
    """loss = mean of (1 - t) x + max(-x, 0) + log(1 + e^-|x|); dx has sigmoid(x) - t."""
    k = rows.k
    zero, one, slope, huge = (constant(k, n) for n in (0.0, 1.0, scale, 2.0**127))
    exp = ExpOfNegative(k, one, is_thrifty=True)
    assert exp.stacked
    share = Stacked(k, SHARE, exp.stacked.depth)
    reciprocal = Reciprocal(k, one)

    def step(v: Lanes, total: Lane, x: Lane, t: Lane) -> list[Lane]:
        a, b, e = v.f(), v.f(), v.f()
        v.fsgnjn_s(b, x, x)
        v.fmin_s(a, x, b)
        exp.exp(v, a, b, e)
        v.fsgnjn_s(b, x, x)
        v.fmax_s(b, b, zero)
        v.fsub_s(a, one, t)
        v.fmadd_s(b, a, x, b)
        with k.scope():
            share(v, a, e, v.f())
        v.fmadd_s(b, a, e, b)
        v.fadd_s(total, total, b)
        v.fmul_s(x, x, huge)  # sigmoid: 1 / (1 + e), or e / (1 + e) where x is negative
        v.fmin_s(x, x, one)
        v.fmax_s(x, x, e)
        v.fadd_s(e, e, one)
        reciprocal(v, a, e, b)
        v.fmsub_s(x, x, a, t)
        v.fmul_s(x, x, slope)
        return [x]

    return step


def of_probabilities(rows: Rows, scale: float) -> Step:
    """loss = mean of -t log x - (1 - t) log(1 - x); dx has (x - t) / (x (1 - x))."""
    k = rows.k
    log = Log(k)
    zero, least, spread = (constant(k, n) for n in (0.0, LEAST_LOG, LEAST_SPREAD))
    slope = constant(k, scale)

    def step(v: Lanes, total: Lane, x: Lane, t: Lane) -> list[Lane]:
        a, b = v.f(), v.f()
        v.fsgnj_s(a, x, x)
        log(v, a)
        v.fmax_s(a, a, least)
        v.fnmsub_s(total, a, t, total)
        v.fsub_s(b, log.one, x)
        v.fmul_s(a, b, x)
        log(v, b)
        v.fmax_s(b, b, least)
        v.fsub_s(x, x, t)
        v.fmadd_s(total, x, zero, total)  # NaN where x is
        v.fmax_s(a, a, spread)
        v.fdiv_s(x, x, a)
        v.fsub_s(t, log.one, t)
        v.fnmsub_s(total, b, t, total)
        v.fmul_s(x, x, slope)
        return [x]

    return step


def _drawn(element: Element, point: Any, numbers: np.random.Generator) -> Arrays:
    x, t = numbers.uniform(0, 1, (2, *point.shape)).astype(FLOAT32).astype(element.dtype)
    return {"x": x, "t": t}


def families(element: Element) -> tuple[Family, ...]:
    """Those of this type."""
    logits = element_family(
        *(element, "bce_logits_loss", of_logits, reference.binary_logits, ElementArguments),
        of_pairs=True,
    )
    probabilities = element_family(
        *(element, "bce_loss", of_probabilities, reference.binary, ElementArguments), of_pairs=True
    )
    drawn = replace(probabilities, draw=partial(_drawn, element))
    return (
        tiled_loss(element, of_logits, logits, of_pairs=True),
        tiled_loss(element, of_probabilities, drawn, of_pairs=True),
    )


FAMILIES = tuple(family for element in ELEMENTS for family in families(element))

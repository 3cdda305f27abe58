"""Gradients that are 0 in FP16 alone: what is below 2^-24, half of its least number, is lost.

Activations' gradients of a mean over many elements are that small; those of the layers below are
then 0, too, and their parameters learn nothing. A loss scale keeps them. What is lost is found by
the meaning of the graph (see trainlib.deploy.interpret), with halves as they are and in float64.
"""

from collections.abc import Mapping

import numpy as np

from trainlib.deploy.graph.values import Graph
from trainlib.deploy.interpret import Interpreter
from trainlib.deploy.optimizers import SGD
from trainlib.deploy.precision import SINGLE, LossScale, Precision
from trainlib.deploy.step import training
from trainlib.primitive.tensor import Arrays

LEAST = 0.1  # of a parameter's gradient: the share of zeros from which they are looked at


def may_underflow(precision: Precision) -> bool:
    """Is there FP16 without a scale that adapts itself?"""
    is_f16 = "f16" in (precision.dtype, *precision.dtypes.values())
    return is_f16 and not isinstance(precision.scale, LossScale)


def lost_gradients(graph: Graph, precision: Precision, arrays: Arrays) -> dict[str, float]:
    """The share of each parameter's gradient that is 0 with halves alone, from LEAST on.

    arrays    inputs of a batch, and what else is not as the graph has it
    """
    found = _gradients(graph, precision, arrays)
    zeros = {name: gradient == 0 for name, gradient in found.items()}
    if all(is_zero.mean() < LEAST for is_zero in zeros.values()):
        return {}
    exact = _gradients(graph, SINGLE, arrays)
    shares = {n: float((is_zero & (exact[n] != 0)).mean()) for n, is_zero in zeros.items()}
    return {name: share for name, share in shares.items() if share >= LEAST}


def underflow_warning(lost: Mapping[str, float], count: int) -> str:
    """What a user is told.

    count    of all parameters that learn
    """
    worst = max(lost, key=lambda name: lost[name])
    return (
        f"gradients of {len(lost)} of {count} parameters have zeros in f16 that they have not in "
        f"f32, {100 * lost[worst]:.0f} % of {worst}'s in the first batch: numbers below 6e-8 are "
        f"lost; scale the loss (loss_scale='dynamic', --loss-scale dynamic), or take bf16"
    )


def _gradients(graph: Graph, precision: Precision, arrays: Arrays) -> dict[str, np.ndarray]:
    """Those of a step, by parameter."""
    schedule = training(graph, SGD(lr=0.0), keeps_gradients=True, precision=precision)
    reference = schedule.reference
    held = {name: array for name, array in arrays.items() if name in reference.values}
    interpreter = Interpreter(reference, held)
    interpreter.run()
    return {name: interpreter.get(value) for name, value in reference.gradients.items()}

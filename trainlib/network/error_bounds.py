"""A network's training in float64, and how far float32 may be from it.

The reference of each primitive tells the largest error of its own results, which follows from its
order of operations. What such errors do to all that comes later is tried: the training is carried
out again, every result of every primitive moved up or down by its largest error. So a gradient that
is 0 but for rounding, as that of a bias before a norm, is known as such, also when Adam makes a
whole step of it; and a kink, as where a ReLU begins, is known where an error may cross it.

While errors are so small that they add up, a number changes by sum(J e), where e are the errors of
all results, none larger than its b, and J are slopes.
* Rounding errors are independent, and 0.6 b or less on average; a drawn sign for each b gives
  sum(J b +-1), which spreads wider.
* Errors that are alike in a whole tensor, as those of a polynomial, add up: so in some trials a
  tensor has one sign.
* Each trial has its mirror image: one of both crosses any kink that an error may cross.
* What is nowhere negative, as means of squares, stays so.
A trial may happen to move a number little, hence FACTOR times the largest of its own moves and the
mean one of its tensor.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from trainlib.deploy.interpret import Disturb, Interpreter, exactly
from trainlib.network.step import LOSS, Step, unfused
from trainlib.network.training import TrainingArguments
from trainlib.primitive.operator import Expected
from trainlib.primitive.tensor import Arrays

FACTOR = 4
TRIALS = (1, 2), (True, False)  # seeds of signs; has each element its own?


def expected(a: TrainingArguments, values: Arrays) -> dict[str, Expected]:
    """The losses of all steps, parameters and states, and their largest errors."""
    step = unfused(a, a.cores or 1)
    exact = trained(step, values, exactly)
    moved = {name: np.zeros_like(array) for name, array in exact.items()}
    for disturb in _trials():
        with np.errstate(invalid="ignore", over="ignore"):
            for name, array in trained(step, values, disturb).items():
                move = np.abs(array - exact[name])
                moved[name] = np.fmax(moved[name], move)
    return {name: (array, _bound(moved[name])) for name, array in exact.items()}


def trained(step: Step, values: Arrays, disturb: Disturb) -> dict[str, np.ndarray]:
    """The losses of all steps, parameters and states, when every result is disturbed."""
    interpreter = Interpreter(step.schedule.reference, values, disturb)
    losses = []
    for _ in range(step.a.steps):
        interpreter.run()
        losses.append(float(interpreter.get(step.loss)[0]))
    names = [value.name for value in step.operands if value.role != "input"]
    return {LOSS: np.array(losses), **{name: interpreter.get(name).copy() for name in names}}


def _trials() -> Iterator[Disturb]:
    for seed, is_each in product(*TRIALS):
        for mirror in (1, -1):
            yield _moves(np.random.default_rng(seed), mirror, is_each)


def _moves(numbers: np.random.Generator, mirror: int, is_each: bool) -> Disturb:
    def disturb(_: str, result: Expected) -> np.ndarray:
        exact, bound = (np.asarray(part) for part in result)
        signs = numbers.choice((-mirror, mirror), exact.shape if is_each else ())
        if not np.any(bound):
            return exact
        moved = exact + np.nan_to_num(signs * bound, posinf=0.0, neginf=0.0)
        return np.maximum(moved, 0) if np.all(exact >= 0) else moved

    return disturb


def _bound(moved: np.ndarray) -> np.ndarray:
    finite = moved[np.isfinite(moved)]
    return FACTOR * (moved + (finite.mean() if finite.size else 0.0))

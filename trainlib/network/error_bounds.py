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

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from trainlib.network.training_graph import Plan, TrainingArguments, plan_of, point_of
from trainlib.primitive.operator import Expected
from trainlib.primitive.tensor import Arrays

FACTOR = 4
TRIALS = (1, 2), (True, False)  # seeds of signs; has each element its own?

Disturb = Callable[[str, Expected], np.ndarray]
"""disturb(name, expected): what becomes of a result with that name in the network."""


def expected(a: TrainingArguments, values: Arrays) -> dict[str, Expected]:
    """The losses of all steps, parameters and states, and their largest errors."""
    plan = plan_of(a, a.cores or 1)
    exact = trained(a, plan, values, lambda _, result: result[0])
    moved = {name: np.zeros_like(array) for name, array in exact.items()}
    for disturb in _trials():
        with np.errstate(invalid="ignore", over="ignore"):
            for name, array in trained(a, plan, values, disturb).items():
                move = np.abs(array - exact[name])
                moved[name] = np.fmax(moved[name], move)
    return {name: (array, _bound(moved[name])) for name, array in exact.items()}


def trained(
    a: TrainingArguments, plan: Plan, values: Arrays, disturb: Disturb
) -> dict[str, np.ndarray]:
    """The losses of all steps, parameters and states, when every result is disturbed."""
    state = {name: array.astype(np.float64) for name, array in values.items() if name != "T"}
    state["T"] = values["T"]
    state |= {n: np.full(plan.tensors[n].shape, value) for n, value in plan.states.items()}
    losses = []
    for _ in range(a.steps):
        for call in plan.calls:
            family, point = point_of(call, a.cores)
            tensors_of = family.tensors(point)
            read = {
                name: state[wanted].reshape(tensors_of[name].shape)
                for name, wanted in call.operands.items()
                if tensors_of[name].role in ("in", "inout")
            }
            for name, result in family.reference(point, read).items():
                wanted = call.operands[name]
                state[wanted] = disturb(wanted, result).reshape(plan.tensors[wanted].shape)
        losses.append(float(state["loss_now"][0]))
    names = (*plan.parameters, *plan.states)
    return {"loss": np.array(losses), **{name: state[name] for name in names}}


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

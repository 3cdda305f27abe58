"""Running error analysis: what errors of operands make of results is within bounds, and near."""

from itertools import product

import numpy as np
import pytest

from trainlib.reference.error_analysis import Near

X = np.array([[-1.7, -0.3, 0.4], [0.02, 0.9, 2.5]])
Y = np.array([[0.6, -2.1, 0.03], [1.4, -0.8, 0.5]])
ERROR = 1e-3  # large beside roundings


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    power = np.exp(x)
    return power / power.sum(-1, keepdims=True)


OPERATIONS = {
    "sum": (lambda x, y: x + y, lambda x, y: x + y),
    "difference": (lambda x, y: x - y, lambda x, y: x - y),
    "product": (lambda x, y: x * y, lambda x, y: x * y),
    "rest": (lambda x, y: 1.0 - x * y, lambda x, y: 1 - x * y),
    "scaled": (lambda x, _: x * 0.3, lambda x, _: 0.3 * x),
    "tanh": (lambda x, _: x.tanh(), lambda x, _: np.tanh(x)),
    "sigmoid": (lambda x, _: x.sigmoid(), lambda x, _: sigmoid(x)),
    "relu": (lambda x, _: x.relu(), lambda x, _: np.maximum(x, 0)),
    "where": (lambda x, y: x.where(y.value > 0), lambda x, y: np.where(y > 0, x, 0)),
    "mixed": (
        lambda x, y: x.mixed(y, x.sigmoid()),
        lambda x, y: x + sigmoid(x) * (y - x),
    ),
    "matmul": (lambda x, y: x.matmul(y.transposed(), x[:, :2]), lambda x, y: x @ y.T + x[:, :2]),
    "sum of rows": (lambda x, _: x.sum(), lambda x, _: x.sum(0)),
    "softmax": (lambda x, _: x.softmax(), lambda x, _: softmax(x)),
    "softmax's gradient": (
        lambda x, y: x.softmax_backward(y),
        lambda x, y: x * (y - (x * y).sum(-1, keepdims=True)),
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_errors_of_operands_stay_within_the_bound_and_come_near_it(name):
    near, plain = OPERATIONS[name]
    got = near(*(Near(value, np.full(value.shape, ERROR)) for value in (X, Y)))
    np.testing.assert_allclose(got.value, plain(X, Y), 1e-14)
    signs = np.array(list(product((-1, 1), repeat=X.size))).reshape(-1, *X.shape)
    worst = np.zeros(got.value.shape)
    for of_x, of_y in zip(signs, np.random.default_rng(0).permutation(signs), strict=True):
        for of_other in (of_x, -of_x, of_y):
            other = plain(X + ERROR * of_x, Y + ERROR * of_other)
            worst = np.maximum(worst, abs(other - got.value))
    assert (worst <= got.error * (1 + 1e-9)).all()
    assert (got.error <= 4 * worst + 1e-6).all()


@pytest.mark.parametrize("name", OPERATIONS)
def test_float32_stays_within_the_bound(name):
    near, plain = OPERATIONS[name]
    x, y = X.astype(np.float32), Y.astype(np.float32)
    got = near(Near.of(x), Near.of(y))
    assert (abs(plain(x, y).astype(np.float64) - got.value) <= got.error).all()
    assert got.error.max() < 1e-5


@pytest.mark.parametrize("away", [30.0, 37.0, 60.0, 300.0])
def test_slopes_far_from_zero_do_not_cancel(away):
    """Where 1 - y is 0 in float64, too, y goes on changing by its own part."""
    for value in (away, -away):
        got = Near(np.array([value]), np.array([ERROR])).sigmoid()
        moved = abs(sigmoid(np.array([value - ERROR, value + ERROR])) - sigmoid(value)).max()
        assert moved * 0.99 <= got.error[0]
        assert got.error[0] < 2 * moved + 1e-6 * got.value[0] + 1e-37
        got = Near(np.array([value]), np.array([ERROR])).tanh()
        assert got.error[0] < 1e-6


@pytest.mark.parametrize("error", [0.4, 0.6, 30.0, 1e3, 1e6])
def test_scores_with_large_errors_have_a_bound_that_holds(error):
    """It was not a number where the power of an error overflows."""
    x = np.array([[0.0, -3.0, -50.0], [-2e3, -1e3, -2.0]])
    got = Near(x, np.full(x.shape, error)).softmax()
    assert (got.error <= 1).all()
    for signs in product((-1, 1), repeat=x.size):
        other = x + error * np.reshape(signs, x.shape)
        other = softmax(other - other.max(-1, keepdims=True))
        assert (abs(other - got.value) <= got.error * (1 + 1e-9)).all()

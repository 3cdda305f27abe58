"""The references themselves: exact values, and bounds that float32 keeps but mistakes do not."""

from fractions import Fraction

import numpy as np

from trainlib.reference import matmul as reference


def test_a_product_is_exact_and_its_bound_holds_for_float32_in_any_order():
    random = np.random.default_rng(1)
    a = random.standard_normal((5, 40), np.float32)
    b = random.standard_normal((40, 3), np.float32)
    exact, bound = reference.matmul(a, b)
    for i in range(5):
        for j in range(3):
            terms = [
                Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True)
            ]
            assert abs(float(sum(terms) - Fraction(exact[i, j]))) < 1e-14
            total = np.float32(0)
            for order in (range(40), reversed(range(40))):
                total = np.float32(0)
                for index in order:
                    total = np.float32(float(terms[index]) + float(total))
                assert abs(float(total) - exact[i, j]) <= bound[i, j]
    assert bound.max() < 1e-4


def test_one_lost_term_is_beyond_the_bound():
    a, b = np.ones((1, 1000), np.float32), np.ones((1000, 1), np.float32)
    exact, bound = reference.matmul(a, b)
    assert exact[0, 0] == 1000
    assert bound[0, 0] < 0.1

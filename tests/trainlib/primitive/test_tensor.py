"""Rows of a tensor in L1."""

from trainlib.primitive.tensor import Tensor


def test_rows_are_as_far_apart_as_their_banks_must_be():
    tensor = Tensor((5, 64), skew=2)
    assert (tensor.row, tensor.l1_size) == (4 * 66, 5 * 4 * 66)
    assert [tensor.row_of(length) // 4 for length in (1, 2, 3, 16, 17, 40)] == [
        2,
        2,
        18,
        18,
        18,
        50,
    ]

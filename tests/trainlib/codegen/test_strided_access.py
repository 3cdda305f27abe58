"""Loads of elements at equal distances: in an order that keeps the pace of the DMA."""

from trainlib.codegen.strided_access import Strided


def test_many_that_lie_together_are_loaded_every_other_one_first():
    for along, way, order in (
        (256, "first", (0, 2, 4, 6, 1, 3, 5, 7)),
        (4000, "last", (2, 4, 6, 1, 3, 5, 7, 0)),
    ):
        strided = Strided(8, 4, along)
        assert (strided.way, strided.order) == (way, order)


def test_few_or_distant_elements_are_loaded_as_they_lie():
    assert Strided(4, 4, 4000).order == (1, 2, 3, 0)
    assert Strided(8, 264, 4).order == tuple(range(8))

"""Networks of PyTorch, trained on the chip, held against float64; the large ones with --full."""

import pytest

pytest.importorskip("torch", reason="torch, the extra `torch`, is missing")

from benchmarks.models import MODELS
from tests.trainlib.deploy.networks import BATCHES, checks

SMALL = {"AE-tiny": BATCHES, "DSCNN-XS": (1,), "LSTM": (1,), "GRU": (1,)}
"""Batches of networks that are trained regularly."""


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_and_losses_are_pytorchs(name, batch, request):
    if batch not in SMALL.get(name, ()) and not request.config.getoption("--full"):
        pytest.skip("a long one: --full")
    assert [check for check in checks(name, batch) if not check.is_right] == []

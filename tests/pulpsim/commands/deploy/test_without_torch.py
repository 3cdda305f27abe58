"""Without the extra `torch` a command says so."""

import sys

import pytest

from pulpsim.commands.deploy.model import loss_of, torch_module
from soc.config.toml import ConfigError


@pytest.fixture(autouse=True)
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


def test_a_network_and_a_loss_of_pytorch_say_what_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"net\.py:build: torch is missing: pip install"):
        torch_module("net.py:build", 0)
    with pytest.raises(ConfigError, match="--loss mse: torch is missing: pip install"):
        loss_of("mse")

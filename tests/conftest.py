"""Options of the test suite."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pulpsim")
    group.addoption(
        "--full", action="store_true", help="run every vector and long random sweep, not a sample"
    )
    group.addoption(
        "--update-golden", action="store_true", help="rewrite golden files from this run's results"
    )
    group.addoption(
        "--vectors",
        type=Path,
        metavar="DIR",
        help="read further test vectors from DIR (default: those in the repository alone)",
    )


@pytest.fixture(autouse=True)
def _nothing_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep processes that translate hot code out of tests that are not about them."""
    from soc.translation import Translator

    monkeypatch.setattr(Translator, "warm", 1 << 60)

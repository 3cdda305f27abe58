"""The manual builds without a warning, and has every page in it."""

import importlib.util
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT


@pytest.mark.skipif(not importlib.util.find_spec("sphinx"), reason="needs the extra docs")
def test_the_manual_builds_without_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture, request: pytest.FixtureRequest
) -> None:
    from docs.__main__ import build

    is_full = request.config.getoption("--full")
    assert build(tmp_path, "html" if is_full else "dummy") == 0, capsys.readouterr().err
    if is_full:
        pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
        assert pages <= {page.stem for page in tmp_path.glob("*.html")}

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

    if not request.config.getoption("--full"):
        pytest.skip("--full builds it; so does .ci/run, by `python -m docs`")
    assert build(tmp_path) == 0, capsys.readouterr().err
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in tmp_path.glob("*.html")}

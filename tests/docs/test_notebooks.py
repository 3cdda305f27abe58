"""The notebooks of the manual run from begin to end."""

import importlib.util
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
NEEDED = {"training": "torch"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if notebook.stem in NEEDED and not request.config.getoption("--full"):
        pytest.skip("takes long; runs with --full")
    for module in ("nbclient", "ipykernel", "pandas", NEEDED.get(notebook.stem, "sys")):
        if not importlib.util.find_spec(module):
            pytest.skip(f"needs {module}")
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    content = nbformat.read(notebook, as_version=4)
    assert not any(cell.get("outputs") for cell in content.cells), "clear its outputs"
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(content, timeout=300, kernel_name="python3", resources=resources).execute()
    shown = [
        output["data"]
        for cell in content.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "execute_result"
    ]
    assert any("<table" in data.get("text/html", "") for data in shown)


def test_there_are_two() -> None:
    assert [file.stem for file in NOTEBOOKS] == ["first-run", "training"]

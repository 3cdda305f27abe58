"""Code of step functions that Python calls: found again, and made anew if a source has changed."""

from pathlib import Path
from typing import Any

import pytest

from soc.aot import kept_steps
from soc.host.cache_folder import VARIABLE
from soc.prelude.step import Step

TEXT = """
from soc.prelude.step import step

@step
def twice(number):
    return {factor} * number

@step
def twice_and_one(number):
    return twice(number) + 1
"""


def called(file: Path) -> tuple[int, Any]:
    """What a function of a module gives, and Numba's object for it."""
    kept_steps.digest.cache_clear()
    kept_steps.content.cache_clear()
    names: dict[str, Any] = {"__name__": "twice"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    found: Step = names["twice_and_one"]
    return found(5), found.dispatcher.stats


def test_code_is_found_again_until_a_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    file = tmp_path / "sources" / "twice.py"
    file.parent.mkdir()
    for factor, hits in ((2, 0), (2, 1), (3, 0), (2, 1)):
        file.write_text(TEXT.format(factor=factor))
        result, stats = called(file)
        assert result == 5 * factor + 1
        assert sum(stats.cache_hits.values()) == hits
    # Nothing of what it calls is kept by itself.
    kept = list((tmp_path / "cache").rglob("*.nbc"))
    assert [path.name.partition("-")[0] for path in kept] == ["twice.twice_and_one"] * 2

"""The timing rules in docs/: every rule that the code cites, and every program that they name."""

import re
from pathlib import Path

import pytest

from pulpsim.fidelity.controller import measured as measured_controller
from pulpsim.fidelity.programs import runs

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "timing-rules.md").read_text()
RULES = set(re.findall(r"^\*\*([A-Z])\.", PAGE, re.MULTILINE))
CITATION = re.compile(r"\brules? ((?:[A-Z](?:, | and | to )?)+)\b(?!')")


def cited(text: str) -> set[str]:
    """Letters of the rules that a text cites; a range counts with its ends."""
    return {letter for found in CITATION.findall(text) for letter in re.findall("[A-Z]", found)}


def test_the_page_has_a_section_for_each_rule() -> None:
    assert set("ABCDEFGHIJKLMNOPQRSTUVWXY") == RULES


@pytest.mark.parametrize("folder", ["isa", "soc", "tests", "configs"])
def test_every_rule_that_is_cited_is_on_the_page(folder: str) -> None:
    files = [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.toml")]
    missing = {f.name: cited(f.read_text()) - RULES for f in files}
    assert {name: letters for name, letters in missing.items() if letters} == {}


def test_every_program_that_the_page_names_is_measured() -> None:
    names = {run.program for run in runs()} | set(measured_controller())
    named = re.findall(r"Programs?: (.*?)(?:\.\n|\n\n)", PAGE, re.DOTALL)
    programs = {p for line in named for p in re.findall(r"`([a-z0-9_*]+)`", line)} - {"ri5cy_*"}
    assert len(programs) > 20
    for program in programs:
        pattern = re.compile(program.replace("*", ".*"))
        assert any(pattern.fullmatch(name) for name in names), program

"""The generated pages say what the code says now; `python -m docs --update` makes them so."""

from collections.abc import Callable
from pathlib import Path

import pytest

from docs.__main__ import FOLDER, GENERATED, generated
from docs.command_pages import command_pages
from docs.instruction_pages import HEADINGS, by_extension, instruction_pages, row
from docs.kernel_equations import EQUATIONS
from docs.kernel_pages import kernel_page, stems
from docs.markdown import table
from trainlib.registry import KERNELS

WAY_OUT = "run `python -m docs --update`"


def assert_is_current(file: str, text: str) -> None:
    assert (FOLDER / file).read_text(encoding="utf-8") == text, f"docs/{file}: {WAY_OUT}"


@pytest.mark.parametrize("pages", [command_pages, instruction_pages], ids=["commands", "isa"])
def test_pages_of_options_and_instructions_are_current(pages: Callable) -> None:
    for file, text in pages():
        assert_is_current(file, text)


@pytest.mark.parametrize("stem", stems())
def test_the_page_of_a_kernel_is_current(stem: str) -> None:
    assert_is_current(f"kernels/{stem}.md", kernel_page(stem))


def test_every_kernel_has_an_equation() -> None:
    assert EQUATIONS.keys() == KERNELS.keys()


def test_every_instruction_is_in_the_reference() -> None:
    pages = "\n".join(text for _, text in instruction_pages())
    for insns in by_extension().values():
        for insn in insns:
            line = table(HEADINGS, [row(insn)]).splitlines()[-1]
            assert line.count(insn.name)
            assert line in pages


def test_generated_folders_have_no_other_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docs.kernel_pages.cycles", lambda name: (1, 1, 0))
    files = {Path(file) for file, _ in generated()}
    there = {file.relative_to(FOLDER) for f in GENERATED for file in (FOLDER / f).glob("*.md")}
    assert there == files

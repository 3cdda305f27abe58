"""docs/glossary.md defines words that the code uses."""

import re

import pytest

from tests.docs.blocks import ROOT
from tests.test_import_chain import FILES

PAGE = (ROOT / "docs" / "glossary.md").read_text()
TERMS = [
    term.rstrip("*").lower()
    for line in re.findall(r"^(\S.*)\n: ", PAGE, re.MULTILINE)
    for term in line.split(", ")
]
CODE = "\n".join(file.read_text(encoding="utf-8") for file in FILES).lower()


@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_used_in_the_code(term: str) -> None:
    assert re.search(rf"\b{re.escape(term)}(?:s|es)?\b", CODE)


def test_no_term_is_defined_twice() -> None:
    assert len(TERMS) == len(set(TERMS)) > 50

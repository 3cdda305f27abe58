"""Code blocks of the manual, and what running one means.

    python    executed, a page's blocks one after the other in one namespace
    sh        commands of pulpsim are parsed, whole blocks executed with --full
    toml      read as the chip file or config that it is
    asm       assembled, for the page's `isa` if there is one
    c         compiled, where there is a compiler
    json      parsed
    diff      applied to a copy of the examples; of other files, what it takes away is there

A comment before a block changes that:

    <!-- setup: CODE -->         Python that is executed before the next block
    <!-- full -->                takes long: executed with --full, else compiled
    <!-- not run: REASON -->     never executed; Python is compiled even so
    <!-- prints -->              of a plain block: the last block that ran has printed this
    <!-- like -->                the same, but for numbers; "…" stands for any text
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LANGUAGES = ("python", "sh", "toml", "asm", "c", "json", "diff")
COMMENT = re.compile(r"<!-- (setup|full|not run|prints|like)(?:: ?(.*?))?\s*-->", re.DOTALL)
PIECE = re.compile(
    rf"(?P<comment>{COMMENT.pattern})|"
    r"^(?P<indent> *)(?P<fence>`{3,}|:{3,})(?P<language>[^\n`]*)\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    language    "" for plain text: output, a table
    line        of the page, where its text begins
    mark        "", "full", "not run", "prints" or "like"
    reason      why it is not run
    setup       Python that is executed before
    """

    page: Path
    language: str
    text: str
    line: int
    mark: str = ""
    reason: str = ""
    setup: str = ""

    @property
    def place(self) -> str:
        """Where it is, for messages: docs/kernels.md:12."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path, text: str | None = None) -> Iterator[Block]:
    """The blocks of a page, in order; directives of Sphinx are none."""
    text = page.read_text() if text is None else text
    mark = reason = setup = ""
    for piece in PIECE.finditer(text):
        if piece["comment"]:
            said = COMMENT.match(piece["comment"])
            assert said
            if said[1] == "setup":
                setup += said[2] + "\n"
            else:
                mark, reason = said[1], (said[2] or "").strip()
            continue
        language = piece["language"].strip()
        if not language.startswith("{"):
            line = text.count("\n", 0, piece.start("text")) + 1
            yield Block(page, language, piece["text"], line, mark, reason, setup)
        mark = reason = setup = ""

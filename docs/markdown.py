"""Tables and lists of Markdown, for pages that are generated."""

from collections.abc import Iterable, Sequence

GENERATED = "<!-- made by `python -m docs --update` -->\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars in cells are escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(text: str) -> str:
    """One line, of which a bar ends no column."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """A value as code; nothing of nothing. In a cell a bar has to be escaped even so."""
    return f"`{text}`" if text else ""


def page(title: str, *parts: str) -> str:
    """A page of parts with a blank line between each two."""
    return f"# {title}\n\n{GENERATED}\n" + "\n".join(f"{part.rstrip()}\n" for part in parts)


def text_block(text: str) -> str:
    """Text as it is."""
    return f"```\n{text.rstrip()}\n```\n"

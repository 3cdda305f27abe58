"""python -m docs: build the manual as HTML into docs/_build. Warnings are errors.

pip install --editable '.[docs]'
python -m docs              # build it
python -m docs --update     # make the generated pages anew: kernels, instructions, options, ...
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
TARGET = FOLDER / "_build"
GENERATED = "kernels", "instructions", "reference"
"""Folders of which every page is made from the code."""


def build(target: Path = TARGET, builder: str = "html") -> int:
    """Build the manual; returns Sphinx's exit status. The builder "dummy" only checks."""
    from sphinx.cmd.build import main

    return main(["-W", "--keep-going", "-q", "-b", builder, str(FOLDER), str(target)])


def generated() -> Iterator[tuple[str, str]]:
    """(file in this folder, text) of each page that is made from the code."""
    from docs.command_pages import command_pages
    from docs.instruction_pages import instruction_pages
    from docs.kernel_pages import kernel_pages

    yield from kernel_pages()
    yield from instruction_pages()
    yield from command_pages()


def update() -> int:
    """Make all generated pages anew; returns 0."""
    old = {file for folder in GENERATED for file in (FOLDER / folder).glob("*.md")}
    for name, text in generated():
        file = FOLDER / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        old.discard(file)
    for file in old:
        file.unlink()
    return 0


def main() -> int:
    """Do what the command line says."""
    lines = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m docs", description=__doc__, formatter_class=lines)
    parser.add_argument("--update", action="store_true", help="make the generated pages anew")
    return update() if parser.parse_args().update else build()


if __name__ == "__main__":
    sys.exit(main())

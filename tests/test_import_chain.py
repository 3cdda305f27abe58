"""The folders form one chain; a folder imports only from itself and from folders to its left."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHAIN = ["isa", "soc", "firmware", "trainlib", "autotuner", "pulpsim"]
FILES = sorted(file for folder in CHAIN for file in (ROOT / folder).rglob("*.py"))


def imported_modules(source: str) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import, however deep; relative ones stay in their folder."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module


def imports_that_point_right(folder: str, source: str) -> list[str]:
    right = [*CHAIN[CHAIN.index(folder) + 1 :], "tests", "configs", "benchmarks"]
    return [
        f"line {line}: {module}"
        for line, module in imported_modules(source)
        if module.partition(".")[0] in right
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_no_import_points_right(file: Path) -> None:
    folder = file.relative_to(ROOT).parts[0]
    assert imports_that_point_right(folder, file.read_text(encoding="utf-8")) == []


def test_every_form_of_an_import_that_points_right_is_found() -> None:
    source = """
import soc.l1
from isa import Program
from . import encoding
def late():
    from firmware.builder import Kernel
    import numpy, pulpsim.cli as cli
"""
    found = ["line 2: soc.l1", "line 6: firmware.builder", "line 7: pulpsim.cli"]
    assert sorted(imports_that_point_right("isa", source)) == found
    assert sorted(imports_that_point_right("soc", source)) == found[1:]
    assert imports_that_point_right("pulpsim", source) == []

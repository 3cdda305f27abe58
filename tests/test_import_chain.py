"""The folders form one chain; a folder imports only from itself and from folders to its left.

So do the folders in trainlib; and files do not import each other in circles.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHAIN = ["isa", "soc", "firmware", "trainlib", "autotuner", "pulpsim"]
IN_TRAINLIB = (
    "primitive reference loops maps rows product conv norm pool interpolate loss recurrent"
    " attention tiles network deploy"
).split()
PUBLIC = {"deploy"}  # folders whose __init__.py names what users import
WITHOUT_CIRCLES = [folder for folder in CHAIN if folder != "soc"]
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


def imported_files(source: str) -> Iterator[tuple[int, str]]:
    """(line, absolute module or name in one) of every import: what may be a file of the project."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def imports_to_the_right_in_trainlib(folder: str, source: str) -> list[str]:
    """Imports of folders behind this one, and of what lies in trainlib itself."""
    left = IN_TRAINLIB[: IN_TRAINLIB.index(folder) + 1]
    return [
        f"line {line}: {name}"
        for line, name in imported_files(source)
        if name.split(".")[0] == "trainlib" and name.split(".")[1] not in left
    ]


def test_the_chain_has_every_folder_of_trainlib_and_each_says_what_lives_there() -> None:
    folders = {file.parent for file in (ROOT / "trainlib").rglob("*.py")} - {ROOT / "trainlib"}
    assert {folder.relative_to(ROOT / "trainlib").as_posix() for folder in folders} == {
        *IN_TRAINLIB
    }
    for folder in folders:
        said = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
        assert ast.get_docstring(said), f"{folder}: its __init__.py does not say what lives there"
        assert len(said.body) == 1 or folder.name in PUBLIC


@pytest.mark.parametrize("folder", IN_TRAINLIB)
def test_no_import_points_right_in_trainlib(folder: str) -> None:
    for file in (ROOT / "trainlib" / folder).rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        assert imports_to_the_right_in_trainlib(folder, source) == [], file


def test_every_form_of_an_import_that_points_right_in_trainlib_is_found() -> None:
    source = """
import trainlib.rows.view
from trainlib.primitive.tensor import Tensor
from trainlib import launch
from trainlib.conv import axis, program
from trainlib.loops import nest
"""
    found = ["line 2: trainlib.rows.view", "line 4: trainlib.launch"]
    found += ["line 5: trainlib.conv.axis", "line 5: trainlib.conv.program"]
    assert imports_to_the_right_in_trainlib("maps", source) == found
    assert imports_to_the_right_in_trainlib("tiles", source) == ["line 4: trainlib.launch"]


def circle(sources: dict[str, str]) -> list[str]:
    """Modules that import each other in a circle, if some do."""
    imported = {
        module: {part for _, name in imported_files(source) for part in (name, parent(name))}
        for module, source in sources.items()
    }
    known = {module: (names & sources.keys()) - {module} for module, names in imported.items()}
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def parent(module: str) -> str:
    return module.rpartition(".")[0]


@pytest.mark.parametrize("folder", WITHOUT_CIRCLES)
def test_no_files_import_each_other_in_a_circle(folder: str) -> None:
    sources = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts): file.read_text(encoding="utf-8")
        for file in (ROOT / folder).rglob("*.py")
    }
    assert circle(sources) == []


def test_a_circle_is_found_where_types_alone_close_it() -> None:
    sources = {
        "a.b": "from a import c",
        "a.c": "from a.d import D",
        "a.d": "if TYPE_CHECKING:\n    from a.b import B",
        "a.e": "import a.b",
    }
    assert sorted({*circle(sources)}) == ["a.b", "a.c", "a.d"]
    assert circle(sources | {"a.d": "class D: ..."}) == []

"""The order of imports: of the packages, of the rooms in each, and no circle of files anywhere."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHAIN = ["isa", "soc", "firmware", "trainlib", "autotuner", "pulpsim"]
ROOMS = {
    "isa": "elf . floats extensions.xpulp extensions.xcv extensions assembler",
    "soc": "config host prelude address_map interconnect icache dma event_unit board chip aot"
    " core peripherals cluster engine jit trace check . debug",
    "firmware": ".",
    "trainlib": "primitive reference codegen elementwise reduction gemm conv norm pool interpolate"
    " loss recurrent attention tiling calls deploy.graph deploy.importers deploy network .",
    "autotuner": ".",
    "pulpsim": ". cli gdb trace trace.export tui html_report fidelity commands.inspect"
    " commands.new commands.run commands.tune commands.study commands.deploy"
    " commands.trace commands api",
}
"""Rooms of each package, in the order of imports; "." are the package's own files.

A room imports from itself and from rooms before it.
"""
PUBLIC = {"trainlib/deploy", "pulpsim/tui", "pulpsim/fidelity"}
"""Rooms whose __init__.py names what others import."""
MOST_FILES = 30
FILES = sorted(file for folder in CHAIN for file in (ROOT / folder).rglob("*.py"))


@cache
def imports(source: str) -> list[ast.Import | ast.ImportFrom]:
    """All imports, however deep; every test of a file looks at them."""
    nodes = ast.walk(ast.parse(source))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imported_modules(source: str) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import, however deep; relative ones stay in their folder."""
    for node in imports(source):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif node.level == 0 and node.module:
            yield node.lineno, node.module


def imports_that_point_right(folder: str, source: str) -> list[str]:
    right = [*CHAIN[CHAIN.index(folder) + 1 :], "tests", "configs", "benchmarks"]
    return [
        f"line {line}: {module}"
        for line, module in imported_modules(source)
        if module.partition(".")[0] in right
    ]


@pytest.mark.parametrize("package", CHAIN)
def test_no_import_points_right(package: str) -> None:
    for file in (ROOT / package).rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        assert imports_that_point_right(package, source) == [], file


def test_every_form_of_an_import_that_points_right_is_found() -> None:
    source = """
import soc.interconnect.tcdm
from isa import Program
from . import encoding
def late():
    from firmware.builder import Kernel
    import numpy, pulpsim.commands.app as cli
"""
    found = [
        "line 2: soc.interconnect.tcdm",
        "line 6: firmware.builder",
        "line 7: pulpsim.commands.app",
    ]
    assert sorted(imports_that_point_right("isa", source)) == found
    assert sorted(imports_that_point_right("soc", source)) == found[1:]
    assert imports_that_point_right("pulpsim", source) == []


def imported_files(source: str) -> Iterator[tuple[int, str]]:
    """(line, absolute module or name in one) of every import: what may be a file of the project."""
    for node in imports(source):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif node.level == 0:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def room_of(name: str) -> str:
    """The room of a module, or of a name in one: of package.room.file.name, "room"."""
    package, *parts = name.split(".")
    rooms = ROOMS[package].split()
    found = [room for k in range(len(parts)) if (room := ".".join(parts[: k + 1])) in rooms]
    return found[-1] if found else "."


def imports_of_later_rooms(package: str, room: str, source: str) -> list[str]:
    rooms = ROOMS[package].split()
    return [
        f"line {line}: {name}"
        for line, name in imported_files(source)
        if name.split(".")[0] == package and rooms.index(room_of(name)) > rooms.index(room)
    ]


@pytest.mark.parametrize("package", CHAIN)
def test_every_room_has_its_place_its_size_its_description_and_its_tests(package: str) -> None:
    folders = {file.parent for file in (ROOT / package).rglob("*.py")}
    names = {".".join(folder.relative_to(ROOT / package).parts) or "." for folder in folders}
    assert names == {*ROOMS[package].split()}
    for folder in folders:
        said = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
        assert ast.get_docstring(said), f"{folder}: its __init__.py does not say what lives there"
        name = folder.relative_to(ROOT).as_posix()
        assert len(said.body) == 1 or name in PUBLIC or name == package
        assert len([*folder.glob("*.py")]) <= MOST_FILES + 1, name
        assert [*(ROOT / "tests" / name).glob("test_*.py")], f"{name}: it has no tests of its own"


@pytest.mark.parametrize("package", CHAIN)
def test_no_import_points_to_a_later_room(package: str) -> None:
    for file in (ROOT / package).rglob("*.py"):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        # The start of the command line stands after all rooms, in the folder of the first.
        room = ROOMS[package].split()[-1] if file.name == "__main__.py" else room_of(module)
        source = file.read_text(encoding="utf-8")
        assert imports_of_later_rooms(package, room, source) == [], file


def test_every_form_of_an_import_that_points_to_a_later_room_is_found() -> None:
    source = """
import trainlib.reduction.row_view
from trainlib.primitive.tensor import Tensor
from trainlib import launch
from trainlib.conv import axis, ops as program
def late():
    from trainlib.codegen import loop_nest
"""
    found = ["line 2: trainlib.reduction.row_view", "line 4: trainlib.launch"]
    found += ["line 5: trainlib.conv.axis", "line 5: trainlib.conv.ops"]
    assert imports_of_later_rooms("trainlib", "elementwise", source) == found
    assert imports_of_later_rooms("trainlib", "tiling", source) == ["line 4: trainlib.launch"]
    assert imports_of_later_rooms("pulpsim", "trace", source) == []


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


@pytest.mark.parametrize("folder", CHAIN)
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

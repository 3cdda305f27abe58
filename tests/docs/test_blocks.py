"""Every code block of the manual runs; with --full those that take long and all commands, too."""

import ast
import contextlib
import importlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel
from typer.core import TyperGroup

import pulpsim as ps
from isa.declare import Isa
from pulpsim.commands.app import app
from pulpsim.commands.study.catalogue import STUDIES
from soc.peripherals.platform import MAKERS
from tests.docs.blocks import LANGUAGES, PAGES, ROOT, Block, blocks_of
from trainlib.registry import KERNELS

PACKAGES = {"isa", "soc", "firmware", "trainlib", "autotuner", "pulpsim"}
EXTRAS = {"torch", "onnx", "matplotlib", "distributed", "pandas"}
COMPILER = "riscv64-unknown-elf-gcc"
PROGRAMS = set("python python3 make pip git cd . dask jupyter export gdb-multiarch".split())
"""First words of commands, besides pulpsim and paths, that a block may have."""


@pytest.fixture(autouse=True)
def _in_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder has what a clone has, to be written to."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name in ("configs", "docs", "benchmarks", "tests", "firmware"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _registries_stay() -> Iterator[None]:
    """What pages register is gone afterwards."""
    registries: list[dict] = [KERNELS, STUDIES, MAKERS]
    before = [dict(registry) for registry in registries]
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry.clear()
        registry.update(entries)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(page: Path, request: pytest.FixtureRequest) -> None:
    is_full = request.config.getoption("--full")
    names: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for block in blocks_of(page):
        if block.language == "":
            if block.mark in ("prints", "like") and printed:
                assert_printed(block, printed)
            continue
        assert block.language in LANGUAGES, f"{block.place}: language {block.language!r}"
        assert block.mark != "not run" or block.reason, f"{block.place}: why is it not run?"
        printed = RUN[block.language](block, names, is_full and block.mark != "not run")


def assert_printed(block: Block, printed: str) -> None:
    """Every line is among those that were printed, in order; "..." stands for any number."""
    rest = printed.splitlines()
    for line in block.text.splitlines():
        if line.strip() in ("...", ""):
            continue
        wanted = pattern(line, block.mark == "like")
        found = [number for number, other in enumerate(rest) if wanted.fullmatch(other)]
        assert found, f"{block.place}: {line!r} was not printed:\n{printed}"
        rest = rest[found[0] + 1 :]


def pattern(line: str, is_like: bool) -> re.Pattern[str]:
    """What a line that is shown stands for."""
    shown = re.escape(line.rstrip()).replace("\\ ", " ")
    if is_like:
        shown = re.sub(r"[\d,]+(?:\\\.\d+)?[kM]?", r"[\\d.,]+[kM]?", shown)
        shown = re.sub(r" +", " +", shown).replace("…", ".*")
        shown = re.sub(r"^ \+", " *", shown)
    return re.compile(shown + r"\s*")


def run_python(block: Block, names: dict[str, object], is_full: bool) -> str:
    """Execute it, or see that it compiles and that what it imports is there."""
    source = compile(block.text, block.place, "exec")
    for module, name in imports(block.text):
        if module.partition(".")[0] in (
            "isa",
            "soc",
            "firmware",
            "trainlib",
            "autotuner",
            "pulpsim",
        ):
            assert not name or hasattr(importlib.import_module(module), name), (
                f"{block.place}: {module} has no {name}"
            )
    if not is_full and block.mark:
        return ""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            exec(block.setup, names)
            exec(source, names)
        except ImportError as error:
            if (error.name or "").partition(".")[0] in (
                "torch",
                "onnx",
                "matplotlib",
                "distributed",
            ):
                pytest.skip(f"{block.place}: {error}")
            raise
    return text.getvalue()


def imports(source: str) -> Iterator[tuple[str, str]]:
    """(module, name in it) of each import."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def run_shell(block: Block, names: dict[str, object], is_full: bool) -> str:
    """Execute it, or see that each command takes the options that it has."""
    for command in commands(block.text):
        check_command(block, command)
    if not is_full:
        return ""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = block.text.replace(".venv/bin/", "")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{block.place}: status {done.returncode}\n{done.stderr}"
    return done.stdout + done.stderr


def commands(script: str) -> Iterator[list[str]]:
    """The words of each command of a script."""
    for line in script.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|\|", line):
            words = shlex.split(part, comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words:
                yield words


def check_command(block: Block, words: list[str]) -> None:
    """A command of pulpsim is parsed, files need not be there; others are known by name."""
    program, *arguments = words
    if program.removeprefix(".venv/bin/") != "pulpsim":
        assert "/" in program or program in PROGRAMS or shutil.which(program), (
            f"{block.place}: {program}"
        )
        return
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup) and arguments and arguments[0] in command.commands:
        command = command.commands[arguments.pop(0)]
    if arguments and arguments[0].startswith("--help"):
        return
    command.make_context("pulpsim", arguments)


def run_toml(block: Block, names: dict[str, object], is_full: bool) -> str:
    """Read it as the file that it is; a fragment at least parses."""
    from pulpsim.cli.run_config import RunConfig
    from pulpsim.commands.deploy.config import DeployConfig
    from pulpsim.commands.study.config import StudyConfig
    from pulpsim.commands.tune.config import TuneConfig
    from soc.chip.spec import SocSpec, load_chip
    from soc.config.validation import Layer, validated

    table = tomllib.loads(block.text)
    is_chip = "base" in table
    chip = table if is_chip else table.get("chip", "pulp")
    if isinstance(chip, dict):
        fields = {name: value for name, value in chip.items() if name != "base"}
        assert isinstance(load_chip(chip.get("base", "pulp"), fields), SocSpec)
    if not is_chip:
        model: type[BaseModel] = RunConfig
        if "study" in table:
            model = StudyConfig
        elif "deploy" in table:
            model = DeployConfig
        elif "tune" in table or "layers" in table:
            model = TuneConfig
        validated(model, [Layer(block.place, table)])
    return ""


def run_asm(block: Block, names: dict[str, object], is_full: bool) -> str:
    """Assemble it."""
    from isa.assembler.asm import assemble_file
    from isa.extensions.profiles import profile

    Path("block.s").write_text(block.text)
    isa = names.get("isa", profile("ri5cy", "x", True))
    assert isinstance(isa, Isa)
    assemble_file(Path("block.s"), isa)
    return ""


def run_c(block: Block, names: dict[str, object], is_full: bool) -> str:
    """Compile it, with the headers of firmware/c; run it, if it is a whole program."""
    if not shutil.which(COMPILER):
        return ""
    Path("block.c").write_text(block.setup + block.text)
    flags = ["-O1", "-Wall", "-Werror", "-march=rv32imf_zicsr", "-mabi=ilp32f", "-ffreestanding"]
    sdk = ROOT / "firmware" / "c"
    command = [COMPILER, *flags, f"-I{sdk}", "block.c"]
    is_program = "int main(" in block.text
    if is_program:
        command += [f"-T{sdk / 'link.ld'}", str(sdk / "crt0.S"), str(sdk / "pulp.c"), "-nostdlib"]
        command += ["-lgcc", "-Wl,--no-warn-rwx-segments", "-o", "block.elf"]
    else:
        command.append("-fsyntax-only")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{block.place}:\n{done.stderr}"
    if not is_program:
        return ""
    result = ps.run("block.elf", max_cycles=1_000_000)
    assert (result.exit.reason, result.exit.code) == ("exit", 0), result.exit
    return result.console


def run_json(block: Block, names: dict[str, object], is_full: bool) -> str:
    """Parse it."""
    json.loads(block.text)
    return ""


def run_diff(block: Block, names: dict[str, object], is_full: bool) -> str:
    """Apply it to a copy of the examples; elsewhere, see that what it does not add is there."""
    if "+++ b/examples/" in block.text:
        command = ["git", "apply", "--recount", "--unidiff-zero", "-"]
        subprocess.run(command, input=block.text, text=True, check=True)
        return ""
    file, changes = "", list[str]()
    for line in block.text.splitlines():
        if line.startswith("+++ b/"):
            file = (ROOT / line.removeprefix("+++ b/")).read_text()
        elif not line.startswith(("+", "---", "@@")):
            changes.append(line[1:])
            assert f"{line[1:]}\n" in file, f"{block.place}: {line[1:]!r} is not in the file"
    assert changes, f"{block.place}: nothing is changed"
    return ""


RUN: dict[str, Callable[[Block, dict[str, object], bool], str]] = {
    "python": run_python,
    "sh": run_shell,
    "toml": run_toml,
    "asm": run_asm,
    "c": run_c,
    "json": run_json,
    "diff": run_diff,
}


def test_a_block_is_found_with_what_is_said_about_it() -> None:
    page = ROOT / "docs" / "example.md"
    text = """
<!-- setup: a = 1 -->
<!-- full -->
```python
print(a)
```

<!-- prints -->
```
1
```

```{toctree}
other
```

<!-- not run: needs a network -->
```sh
git clone URL
```
"""
    assert [*blocks_of(page, text)] == [
        Block(page, "python", "print(a)\n", 5, "full", "", "a = 1\n"),
        Block(page, "", "1\n", 10, "prints"),
        Block(page, "sh", "git clone URL\n", 19, "not run", "needs a network"),
    ]


def test_what_a_block_claims_is_checked(tmp_path: Path) -> None:
    def block(language: str, text: str, mark: str = "") -> Block:
        return Block(ROOT / "docs" / "example.md", language, text, 1, mark)

    with pytest.raises(AssertionError, match=r"soc\.run has no run_programme"):
        run_python(block("python", "from soc.run import run_programme", "full"), {}, False)
    with pytest.raises(Exception, match="No such option"):
        run_shell(block("sh", "pulpsim run --fast a.toml"), {}, False)
    with pytest.raises(Exception, match=r"l1\.rows"):
        run_toml(block("toml", 'base = "pulp"\n[l1]\nrows = 2\n'), {}, False)
    with pytest.raises(Exception, match=r"block\.s"):
        run_asm(block("asm", "p.fly x1\n"), {}, False)
    with pytest.raises(AssertionError, match="'b' was not printed"):
        assert_printed(block("", "a\n...\nb\n"), "a\nc\n")
    assert_printed(block("", "a\n...\nb\n"), "a\nc\nb\n")

"""docs/architecture.md says what is: the rooms, and the way of a load."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from isa.assembler.asm import assemble_file
from isa.extensions.profiles import profile
from pulpsim.cli.run_config import Options
from pulpsim.commands.run.command import run
from soc.prelude import step
from soc.simulation import Simulation
from tests.docs.blocks import ROOT
from tests.test_import_chain import CHAIN, ROOMS

PAGE = (ROOT / "docs" / "architecture.md").read_text()
WAY = re.findall(r"^\| \d \| `(\S+)` \| `(\w+)` \|", PAGE, re.MULTILINE)
LOAD = """
_start:
    li a0, 1
    li a1, 0x10000000
    lb a0, 5(a1)
    mv a2, a0
wait:
    j wait
"""

Place = tuple[str, str]


def test_the_drawing_has_every_room_in_the_order_of_imports() -> None:
    assert f"\n{'  <-  '.join(CHAIN)}\n" in PAGE
    for package in CHAIN:
        rooms = [room for room in ROOMS[package].split() if room != "."]
        drawn = re.search(
            rf"^{package} +(?P<rooms>(?:.+\n)+)", PAGE[PAGE.index("\n\nisa ") :], re.M
        )
        assert drawn is not None
        assert drawn["rooms"].split()[: len(rooms)] == rooms or not rooms


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[Place, list[Place]]:
    """Functions of the project in the order of their first calls, each with its callers.

    Of a run of LOAD by the compiled engine's loop, but in plain Python.
    """
    compiled = Simulation._compile

    def not_compiled(simulation: Simulation) -> None:
        compiled(simulation)
        unit: Any = simulation._machine_code()
        unit.generate()
        loop: Callable[..., int] = unit.generated.run
        simulation.run_cycles = lambda chip, end: int(loop(chip, end))
        simulation.run_briefly = lambda end: int(loop(simulation.chip, end))

    monkeypatch.setattr(step, "_compiler", [])
    monkeypatch.setattr(Simulation, "_compile", not_compiled)
    source, elf = tmp_path / "load.s", tmp_path / "load.elf"
    source.write_text(LOAD)
    elf.write_bytes(assemble_file(source, profile("ri5cy", "x", False)).to_elf())
    settings = ("cores=1", "core.reset_pc=0")
    options = Options(elf=elf, chip="ri5cy-rtl", settings=settings, max_cycles=40)
    found: dict[Place, list[Place]] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (place := place_of(frame)) and place not in found:
            found[place] = callers_of(frame)

    sys.setprofile(note)
    try:
        run(None, options, is_quiet=True)
    finally:
        sys.setprofile(None)
    return found


def place_of(frame: FrameType) -> Place | None:
    """File and function, of the project."""
    file = Path(frame.f_code.co_filename)
    if not file.is_relative_to(ROOT):
        return None
    return file.relative_to(ROOT).as_posix(), frame.f_code.co_name


def callers_of(frame: FrameType) -> list[Place]:
    """Functions of the project that are under way, the outermost first."""
    stack: list[Place] = []
    while frame := frame.f_back:  # type: ignore[assignment]
        if place := place_of(frame):
            stack.insert(0, place)
    return stack


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_load_takes_the_way_that_the_page_tells(entered: dict[Place, list[Place]]) -> None:
    assert len(WAY) == len({file for file, _ in WAY}) < 8
    *outer, loop, issue, access, bank = WAY
    passed = [place for place in entered if place in WAY and place != access]
    assert passed == [*outer, loop, issue, bank]  # access_l1 looks for requests before that, too
    for place, callers in {
        loop: outer,
        issue: [*outer, loop],
        access: [*outer, loop],
        bank: [*outer, loop, access],
    }.items():
        assert [caller for caller in entered[place] if caller in WAY] == callers

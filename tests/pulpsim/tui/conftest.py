"""Programs to look at, and a recording."""

from dataclasses import replace
from pathlib import Path

import pytest

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from isa.program import Program
from soc.run import run_program
from soc.trace.recorder import Recording
from tests.pulpsim.tui.person import SEED
from tests.soc.random_programs import random_program

HELLO = Path(__file__).parents[3] / "examples" / "hello.s"


@pytest.fixture(scope="module")
def program() -> Program:
    return random_program(SEED)


@pytest.fixture(scope="module")
def hello() -> Program:
    return assemble(HELLO.read_text(), profile("ri5cy", "x"), text_base=0x1C010000)


@pytest.fixture(scope="module")
def trace(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("trace") / "run.trace"
    run_program(replace(program, regions={0: "first"}), trace=Recording(file))
    return file

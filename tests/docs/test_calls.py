"""The pages of the firmware name every call that there is."""

import re

import pytest

from firmware.arena import Arena
from firmware.builder import Kernel
from firmware.console import Console
from firmware.drivers import Dma
from firmware.fork import Crew, Offload
from firmware.team import Team
from tests.docs.blocks import ROOT

PYTHON = (ROOT / "docs" / "firmware.md").read_text()
C = (ROOT / "docs" / "programs-in-c.md").read_text()
HEADER = (ROOT / "firmware" / "c" / "pulp.h").read_text()
CALLS = {
    "k": Kernel,
    "k.l1": Arena,
    "team": Team,
    "crew": Crew,
    "offload": Offload,
    "dma": Dma,
    "console": Console,
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_of_a_class_is_in_the_table(name: str) -> None:
    for call in vars(CALLS[name]) if name != "k" else dir(CALLS[name]):
        if not call.startswith("_") and callable(getattr(CALLS[name], call)):
            assert f"`{name}.{call}" in PYTHON, f"docs/firmware.md lacks {name}.{call}"


def test_every_call_of_the_header_is_in_the_table() -> None:
    types = r"(?:static inline |_Noreturn )?(?:void|int|uint32_t) \*?"
    functions = re.findall(rf"^{types}(\w+)\(", HEADER, re.MULTILINE)
    macros = re.findall(r"^#define ([a-z]\w+)\(", HEADER, re.MULTILINE)
    assert len(functions) > 15
    for call in {*functions, *macros}:
        assert re.search(rf"`{call}[(`]", C), f"docs/programs-in-c.md lacks {call}"

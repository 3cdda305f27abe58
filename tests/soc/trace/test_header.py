"""Headers of traces that somebody has damaged: refused in one line, whoever reads them."""

import re
from pathlib import Path
from typing import Any

import pytest

from isa.program import Program
from soc.chip.spec import load_chip
from soc.trace.reader import Trace, TraceError
from soc.trace.writer import TraceWriter, new_header


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("banks", 0, "its header has banks 0"),
        ("banks", 1 << 40, "its header has banks 1099511627776"),
        ("first_cycle", -5, "its header has first_cycle -5"),
        ("cycles", "x", "its header has cycles x"),
        ("cycles", 1 << 70, "its header has cycles 1180591620717411303424"),
        ("events", [1], "its header has events [1]"),
        ("filters", 5, "its header has filters 5"),
        ("filters", [5], "its header has filters [5]"),
        ("regions", {"5": 7}, "'regions' in its header are not names"),
        (
            "code",
            [[0, "zz"]],
            "its header has code that cannot be read: non-hexadecimal number found in fromhex() "
            "arg at position 0",
        ),
        (
            "isa",
            "x",
            "its header has code that cannot be read: profile: no core 'x'; there are ri5cy, "
            "cv32e40p",
        ),
    ],
)
def test_a_header_that_nobody_writes_is_refused(
    tmp_path: Path, field: str, value: Any, message: str
) -> None:
    file = tmp_path / "run.trace"
    writer = TraceWriter(file, new_header(load_chip("pulp"), Program((), 0)) | {field: value})
    writer.close(**{"complete": True, field: value})
    with pytest.raises(TraceError, match=f"^{re.escape(f'{file}: damaged: {message}')}$"):
        Trace.open(file)


def test_what_is_not_known_yet_is_no_damage(tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    header = new_header(load_chip("pulp"), Program((), 0)) | {"cycles": None}
    TraceWriter(file, header).stream.close()
    assert Trace.open(file).cycles == 0

"""What LLVM is told of step functions: which of their accesses concern different places."""

import os
import subprocess
import sys
from pathlib import Path

PROBE = """\
from soc.prelude.step import step


@step
def field_again(record, index):
    before = record["field"]
    record["items"][index] = 0
    record["other"] = 1
    return before + record["field"]


@step
def item_again(record, index):
    before = record["items"][0]
    record["items"][index] = 0
    return before + record["items"][0]


@step
def field_through_another_record(record, records):
    before = record["field"]
    records["field"] = 0
    return before + record["field"]
"""

SCRIPT = """\
import llvmlite.binding as llvm
import numpy as np
from soc.aot.compiler import compile_unit
from soc.aot.unit import Unit

record = np.dtype([("field", "i8"), ("other", "i8"), ("items", "i8", (4,))])
unit = Unit("probe")
unit.is_bitcode = True
unit.link("probe.field_again", record, int, returns=int)
unit.link("probe.item_again", record, int, returns=int)
unit.link("probe.field_through_another_record", record, record, returns=int)
module = llvm.parse_bitcode(compile_unit(unit))
for link in unit.links.values():
    text = str(module.get_function(link.symbol))
    print(link.name, text.count(" = load "))
"""


def test_what_is_stored_elsewhere_is_no_reason_to_load_a_field_again(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    found = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": found},
        capture_output=True,
        text=True,
        check=True,
    )
    loads = dict(line.split() for line in ran.stdout.splitlines())
    assert loads == {"field_again": "1", "item_again": "2", "field_through_another_record": "2"}

"""The JSON of a run, read back."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from soc.config.toml import ConfigError
from soc.result_file import LARGEST_FILE, read_result

RESULT = Path(__file__).parents[1] / "pulpsim" / "data" / "result.json"
WAY_OUT = "; make it again with `pulpsim run --json FILE`"


def refusal(file: Path, data: bytes) -> str:
    file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_result(file)
    (mistake,) = caught.value.mistakes
    return mistake.replace(str(file), "FILE")


def changed(place: str, value: Any) -> bytes:
    """The result with another value at a place, "harts/3/cycles"."""
    result = copy.deepcopy(json.loads(RESULT.read_text()))
    *of, last = (int(name) if name.isdecimal() else name for name in place.split("/"))
    table = result
    for name in of:
        table = table[name]
    table[last] = value
    return json.dumps(result).encode()


def test_what_is_read_is_what_was_written() -> None:
    written, read = json.loads(RESULT.read_text()), read_result(RESULT)
    assert [read[name] for name in ("schema", "cycles", "warnings")] == [
        written[name] for name in ("schema", "cycles", "warnings")
    ]
    assert read["l1"] == written["l1"]
    for hart, other in zip(read["harts"], written["harts"], strict=True):
        assert {cause: n for cause, n in hart["stalls"].items() if n} == other["stalls"]
        assert [r["id"] for r in hart["regions"]] == [r["id"] for r in other["regions"]]


@pytest.mark.parametrize(
    ("place", "value", "mistake"),
    [
        ("cycles", -1, "cycles = -1: must be greater than or equal to 0"),
        ("cycles", True, "cycles = true: must be a valid integer"),
        ("harts/2/stalls/event", "x", 'harts[2].stalls.event = "x": must be a valid integer'),
        ("harts/0/regions/1", None, "harts[0].regions[1] = null: must be a valid dictionary"),
        ("l1/banks/3/conflicts", 1.5, "l1.banks[3].conflicts = 1.5: must be a valid integer"),
        ("dma", [], "dma: must be a valid dictionary"),
        ("dma", {}, "dma.l1_accesses: missing"),
        ("cycles", 1 << 60, "cycles = 1152921504606846976: must be less than or equal to 9007"),
        ("warnings", ["", 3], "warnings[1] = 3: must be a valid string"),
        ("program", {"macs_per_cycle": float("inf")}, "program.macs_per_cycle = inf: must be "),
    ],
)
def test_a_wrong_value_is_told_by_its_path_and_rule(
    tmp_path: Path, place: str, value: Any, mistake: str
) -> None:
    said = refusal(tmp_path / "it", changed(place, value))
    assert said.startswith(f"FILE: {mistake}")
    assert said.endswith(WAY_OUT)


@pytest.mark.parametrize(
    ("data", "mistake"),
    [
        (b'{"a": 1,\n "b" 2}', "malformed JSON: Expecting ':' delimiter (line 2, column 6)"),
        (b'{"a": "\xff"}', "not UTF-8 text (byte 7)"),
        (b'{"a": ' + b"[" * 100_000, "lists or objects are nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "an integer is too long"),
    ],
)
def test_what_is_no_json_is_told_by_its_place(tmp_path: Path, data: bytes, mistake: str) -> None:
    assert refusal(tmp_path / "it", data) == f"FILE: {mistake}{WAY_OUT}"


def test_other_files_are_no_results(tmp_path: Path) -> None:
    other = "FILE: neither a trace nor the result of a run; "
    for data in (b"", b"\x7fELF", b"[]", b"{}", b'{"schema": "pulpsim.tune/1"}'):
        assert refusal(tmp_path / "it", data).startswith(other)
    large = refusal(tmp_path / "it", b" " * (LARGEST_FILE + 1))
    assert large == f"FILE: longer than {LARGEST_FILE} bytes: not the result of a run"


def test_only_the_first_of_very_many_mistakes_is_looked_at(tmp_path: Path) -> None:
    data = changed("harts/0/regions", [{}] * 1000)
    assert refusal(tmp_path / "it", data) == f"FILE: harts[0].regions[0].id: missing{WAY_OUT}"

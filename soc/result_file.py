"""The JSON of a run as it is read back: checked once, refused with the path of what is wrong.

Its fields: soc.result, and under "program" trainlib.report. What nothing reads is not checked.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError, create_model

from soc.check.report import CHECKS
from soc.chip.shadow import COUNTERS, MOST_FINDINGS
from soc.config.toml import ConfigError
from soc.config.validation import shown_value
from soc.prelude.counters import CAUSES, REGIONS
from soc.result import SCHEMA

LARGEST_FILE = 12 << 20  # bytes: 17 harts with all regions each, and a console of 1 MB
MOST_HARTS, MOST_BANKS, MOST_WARNINGS, MOST_LINES = 17, 256, 10_000, 1 << 20
WAY_OUT = "make it again with `pulpsim run --json FILE`"

Count = Annotated[int, Field(ge=0, le=1 << 53)]
"""Cycles or events: as many as a float counts exactly."""
Item = TypeVar("Item")
Short = Annotated[list[Item], FailFast()]


class JsonObject(BaseModel):
    """An object of the JSON."""

    model_config = ConfigDict(frozen=True, strict=True)


if TYPE_CHECKING:
    Stalls = dict[str, int]
else:
    Stalls = create_model("Stalls", __base__=JsonObject, **dict.fromkeys(CAUSES, (Count, 0)))


class Region(JsonObject):
    id: Count
    name: str
    count: Count
    cycles: Count
    instructions: Count
    stalls: Stalls


class Hart(JsonObject):
    name: str
    instructions: Count
    stalls: Stalls
    regions: Short[Region] = Field(max_length=REGIONS)


class Bank(JsonObject):
    accesses: Count
    conflicts: Count


class L1(JsonObject):
    banks: Short[Bank] = Field(max_length=MOST_BANKS)


class Dma(JsonObject):
    l1_accesses: Count


class Kernel(JsonObject):
    macs_per_cycle: float | None = Field(None, ge=0, le=1 << 53, allow_inf_nan=False)


class Access(JsonObject):
    who: str
    cycle: Count
    does: str
    function: str
    line: str


class Finding(JsonObject):
    check: str
    kind: str
    what: str
    message: str
    count: Count
    accesses: Short[Access] = Field(max_length=2)


class Conflicts(JsonObject):
    place: str
    accesses: Count
    conflicts: Count
    advice: str


class Checks(JsonObject):
    made: Short[str] = Field(max_length=len(CHECKS))
    findings: Short[Finding] = Field(max_length=MOST_FINDINGS + COUNTERS)
    conflicts: Short[Conflicts] = Field(max_length=MOST_LINES)


class Result(JsonObject):
    """What is read of a result."""

    format: Literal["pulpsim.run/1"] = Field(alias="schema")
    cycles: Count
    harts: Short[Hart] = Field(max_length=MOST_HARTS)
    l1: L1
    dma: Dma
    warnings: Short[str] = Field(max_length=MOST_WARNINGS)
    program: Kernel | None = None
    checks: Checks | None = None


def read_result(file: Path) -> dict[str, Any]:
    """What a run has left as JSON, without the fields that Result does not have.

    raises    ConfigError if it cannot be read or is not a whole result
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from None
    if len(data) > LARGEST_FILE:
        raise ConfigError([f"{file}: longer than {LARGEST_FILE} bytes: not the result of a run"])
    table = _parsed(file, data)
    if not isinstance(table, dict) or table.get("schema") != SCHEMA:
        raise ConfigError([f"{file}: neither a trace nor the result of a run; {MAKE_ONE}"])
    try:
        return Result.model_validate(table).model_dump(by_alias=True)
    except ValidationError as error:
        raise ConfigError([f"{file}: {_first(error)}; {WAY_OUT}"]) from None


MAKE_ONE = "make one with `pulpsim run --trace FILE`, or `--json FILE`"


def _parsed(file: Path, data: bytes) -> Any:
    try:
        return json.loads(data)
    except UnicodeDecodeError as error:
        rule = f"not UTF-8 text (byte {error.start})"
    except json.JSONDecodeError as error:
        rule = f"malformed JSON: {error.msg} (line {error.lineno}, column {error.colno})"
    except ValueError:  # NOTE: Python reads decimal integers of at most 4300 digits
        rule = "an integer is too long"
    except RecursionError:
        rule = "lists or objects are nested too deeply"
    if not data.lstrip().startswith(b"{"):
        return None
    raise ConfigError([f"{file}: {rule}; {WAY_OUT}"])


def _first(error: ValidationError) -> str:
    """The first mistake, with the path of its value: harts[3].cycles = -1: must be ..."""
    mistake = error.errors(include_url=False)[0]
    path = "".join(f"[{n}]" if isinstance(n, int) else f".{n}" for n in mistake["loc"])
    value = mistake["input"]
    is_plain = isinstance(value, bool | int | float | str)
    shown = f" = {shown_value(value)}" if is_plain else " = null" if value is None else ""
    rule = mistake["msg"].replace("Input should be", "must be").replace("Field required", "missing")
    return f"{path.removeprefix('.')}{shown}: {rule}"

"""TOML files and settings: what is read, and what is said about mistakes."""

import re
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from soc.config.toml import ConfigError, nested, parse_setting, read_toml
from soc.config.validation import Layer, validated
from soc.prelude.field import setting


class Bank(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = setting(64, "bytes", "", ge=4, le=1024)
    latency: int | Literal["auto"] = setting(1, "cycles", "")
    order: tuple[int, ...] = setting((0, 1), "", "")

    @model_validator(mode="after")
    def check(self) -> "Bank":
        if self.size % 4:
            raise ValueError(f"bank: size {self.size} is not a whole number of words")
        return self


class Chip(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    cores: int = setting(8, "cores", "", ge=1)
    kind: Literal["small", "large"] = setting("small", "", "")
    bank: Bank = Bank()
    spare: Bank = Bank()


def mistakes(*layers: Layer) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        validated(Chip, layers)
    return caught.value.mistakes


def mistakes_of(**table: object) -> list[str]:
    return mistakes(Layer("x.toml", {"name": "x", **table}))


def refusal(file: Path, data: bytes) -> str:
    file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_toml(file)
    return str(caught.value).replace(str(file), "FILE")


def test_later_layers_override_earlier_ones_key_by_key() -> None:
    chip = validated(
        Chip,
        [
            Layer("a", {"name": "a", "cores": 4, "bank": {"size": 8, "order": [1, 0]}}),
            Layer("b", {"bank": {"size": 16}}),
        ],
    )
    assert chip == Chip(name="a", cores=4, bank=Bank(size=16, order=(1, 0)))


def test_all_mistakes_are_reported_at_once_each_with_its_source() -> None:
    chip = {"cores": 0, "kind": "tiny", "bank": {"size": 2048, "latency": "no"}, "spare": 3}
    assert mistakes(Layer("a.toml", chip), Layer("--set", {"bank": {"order": ["x"]}})) == [
        "a.toml: name: missing",
        "a.toml: cores = 0: must be greater than or equal to 1 (cores)",
        "a.toml: kind = \"tiny\": must be 'small' or 'large'",
        "a.toml: bank.size = 2048: must be less than or equal to 1024 (bytes)",
        "a.toml: bank.latency = \"no\": must be a valid integer or 'auto' (cycles)",
        "--set: bank.order = ['x']: must be a valid integer",
        "a.toml: spare = 3: must be a table",
    ]


def test_a_mistake_in_a_nested_table_names_its_place_in_the_file() -> None:
    assert mistakes(Layer("run.toml", {"name": "x", "cores": True}, prefix="chip.")) == [
        "run.toml: chip.cores = true: must be a valid integer (cores)"
    ]
    assert mistakes(Layer("run.toml", {"name": "x", "core": 1}, prefix="chip.")) == [
        "run.toml: chip.core = 1: no such field; did you mean chip.cores?"
    ]


def test_a_rule_among_fields_is_reported_in_its_own_words() -> None:
    assert mistakes_of(bank={"size": 66}) == [
        "x.toml: bank: size 66 is not a whole number of words"
    ]


@pytest.mark.parametrize(
    ("table", "way_out"),
    [
        ({"core": 8}, "core = 8: no such field; did you mean cores?"),
        ({"bank": {"sice": 8}}, "bank.sice = 8: no such field; did you mean bank.size?"),
        ({"size": 8}, "size = 8: no such field; did you mean bank.size or spare.size?"),
        ({"bank": {"x": {}}}, "bank.x: no such field; bank has latency, order, size"),
        (
            {"zz": 1.5},
            "zz = 1.5: no such field; this table has bank, cores, kind, name, spare",
        ),
    ],
)
def test_an_unknown_field_is_met_with_the_nearest_ones(table: dict, way_out: str) -> None:
    assert mistakes_of(**table) == [f"x.toml: {way_out}"]


def test_long_values_are_shortened_in_messages() -> None:
    assert mistakes_of(kind="k" * 100) == [
        f"x.toml: kind = \"{'k' * 56}...: must be 'small' or 'large'"
    ]
    assert mistakes_of(kind=1 << 20000) == [
        f"x.toml: kind = 0x1{'0' * 54}...: must be 'small' or 'large'"
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a = 1\nb = = 2\n", "FILE:2: malformed TOML: Invalid value (column 5)"),
        (b"a = 1\nb = [", "FILE:2: malformed TOML: Invalid value (end of file)"),
        (
            b"a = 1\n\na = 2\n",
            "FILE:3: malformed TOML: a key is set twice, or also a table (column 6)",
        ),
        (b"# fine\na = '\xff'\n", "FILE:2: not UTF-8 text (byte 12)"),
        (b"a = " + b"[" * 100_000, "FILE: arrays or tables are nested too deeply"),
        (b"a = " + b"9" * 5000, "FILE: an integer is too long"),
        (b"#" * 2_000_000, "FILE: longer than 1048576 bytes: not a config file"),
    ],
)
def test_a_malformed_file_is_refused_by_line_and_rule(
    tmp_path: Path, data: bytes, message: str
) -> None:
    assert refusal(tmp_path / "bad.toml", data) == message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent.toml"
    with pytest.raises(
        ConfigError, match=f"^{re.escape(str(absent))}: cannot be read: No such file or directory$"
    ):
        read_toml(absent)
    with pytest.raises(
        ConfigError, match=f"^{re.escape(str(tmp_path))}: cannot be read: Is a directory$"
    ):
        read_toml(tmp_path)
    with pytest.raises(ConfigError, match=r"^\0: cannot be read: a path has no NUL characters$"):
        read_toml(Path("\0"))


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("cores=4", {"cores": 4}),
        ("l1.size = 0x1_0000", {"l1": {"size": 65536}}),
        ("core.isa=ri5cy", {"core": {"isa": "ri5cy"}}),
        ('core.isa="ri5cy"', {"core": {"isa": "ri5cy"}}),
        ("a.b.c=true", {"a": {"b": {"c": True}}}),
        ("a=[1, 2]", {"a": [1, 2]}),
        ("a={b = 1.5}", {"a": {"b": 1.5}}),
        ("a=pulp/x-1.toml", {"a": "pulp/x-1.toml"}),
    ],
)
def test_a_setting_is_a_dotted_key_and_a_toml_value_or_a_bare_word(text: str, table: dict) -> None:
    assert parse_setting(text) == table


@pytest.mark.parametrize("text", ["", "cores", "=4", "cores=", "a..b=1", ".a=1", "a b=1", "a.=1"])
def test_a_setting_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"^--set {re.escape(text)}: must be path\.to\.field=value, such as l1\.banks=32$",
    ):
        parse_setting(text)


@pytest.mark.parametrize("value", ["[1", '"a', "two words", "1\nb = 2", "{a", "a#b"])
def test_a_setting_whose_value_is_no_toml_is_refused(value: str) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"^--set a={re.escape(value)}: {re.escape(value)} is neither a TOML value "
        "nor a bare word$",
    ):
        parse_setting(f"a={value}")


def test_dotted_keys_stand_for_tables() -> None:
    settings = {"l1.banks": 32, "cores": 4, "l1": {"size": 8}, "l1.size": 16}
    assert nested(settings) == {"l1": {"banks": 32, "size": 16}, "cores": 4}


class Round(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["round"]
    radius: int = 1


class Square(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["square"]


class Drawing(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    sizes: tuple[int, ...] = Field((1,), min_length=1)
    shapes: tuple[Annotated[Round | Square, Field(discriminator="kind")], ...] = ()
    frame: Bank | None = None


@pytest.mark.parametrize(
    ("table", "mistake"),
    [
        ({"sizes": []}, "sizes = []: must be a list of at least 1"),
        (
            {"shapes": [{"kind": "oval"}]},
            "shapes[0]: kind = \"oval\": must be one of 'round', 'square'",
        ),
        ({"shapes": [{"kind": "round"}, {}]}, "shapes[1]: kind: missing"),
        ({"shapes": [{"kind": "round"}, 5]}, "shapes[1] = 5: must be a table"),
        (
            {"shapes": [{"kind": "square"}, {"kind": "round", "radios": 3}]},
            "shapes[1].radios = 3: no such field; did you mean shapes[1].radius?",
        ),
        (
            {"shapes": [{"kind": "square", "radius": 3}]},
            "shapes[0].radius = 3: no such field; shapes[0] has kind",
        ),
        (
            {"shapes": [{"kind": "round", "radius": "x"}]},
            'shapes[0].radius = "x": must be a valid integer',
        ),
        ({"frame": {"sice": 4}}, "frame.sice = 4: no such field; did you mean frame.size?"),
        ({"shapes": {"kind": 4}}, "shapes: must be a list, such as [4, 2]"),
        ({"frame": {"x": {"y": 1}}}, "frame.x: no such field; frame has latency, order, size"),
        (
            {"sizes": [1], "frame": {"order": {"y": 1}}},
            "frame.order: must be a list, such as [4, 2]",
        ),
    ],
)
def test_short_lists_unknown_forms_and_optional_tables_are_told(table: dict, mistake: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validated(Drawing, [Layer("f.toml", table)])
    assert caught.value.mistakes == [f"f.toml: {mistake}"]

"""Chips: every field documented and bounded, files by name, bases, overrides."""

import re
from pathlib import Path

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from soc.chip.spec import SocSpec, chip_names, load_chip
from soc.config.toml import ConfigError
from soc.config.validation import field_note, fields

FIELDS = dict(fields(SocSpec))
NUMBERS = [path for path, field in FIELDS.items() if field.annotation is int]
NUMBERED = {("fabric_controller", "hart_id"), ("peripherals", "first_software_event")}


def components(model: type[BaseModel]) -> list[type[BaseModel]]:
    tables = [
        field.annotation
        for field in model.model_fields.values()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    ]
    return [model, *(inner for table in tables for inner in components(table))]


def mistakes(chip: str | Path, **overrides: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_chip(chip, overrides)
    return caught.value.mistakes


def test_the_default_chip_is_pulp_with_the_defaults_of_every_component() -> None:
    pulp = load_chip()
    assert pulp.name == "pulp"
    assert pulp == SocSpec(name="pulp", description=pulp.description)


@pytest.mark.parametrize("name", chip_names())
def test_every_chip_of_the_simulator_loads_and_is_described(name: str) -> None:
    chip = load_chip(name)
    assert chip.name == name
    assert chip.description


@pytest.mark.parametrize("component", components(SocSpec), ids=lambda model: model.__name__)
def test_a_component_is_frozen_refuses_unknown_fields_and_is_complete(
    component: type[BaseModel],
) -> None:
    assert component.model_config.get("frozen") is True
    assert component.model_config.get("extra") == "forbid"
    assert component() == component()


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_a_field_says_where_its_default_comes_from(path: tuple[str, ...]) -> None:
    assert field_note(FIELDS[path], "source")


@pytest.mark.parametrize("path", NUMBERS, ids=".".join)
def test_a_number_has_a_unit_and_a_range(path: tuple[str, ...]) -> None:
    field = FIELDS[path]
    assert field_note(field, "unit") or path in NUMBERED
    kinds = {type(limit) for limit in field.metadata}
    assert kinds & {Ge, Gt}
    assert kinds & {Le, Lt}


def test_fields_are_overridden_by_tables_and_by_dotted_keys() -> None:
    chip = load_chip("pulp", {"l1.banks": 32, "l1": {"size": 1 << 17}, "cores": 4})
    assert (chip.l1.banks, chip.l1.size, chip.cores) == (32, 1 << 17, 4)
    assert chip.dma == load_chip("pulp").dma


def test_a_chip_file_may_start_from_another_one(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text("base = 'pulp'\ncores = 2\n[l1]\nbanks = 4\n")
    (tmp_path / "wide.toml").write_text("base = 'small.toml'\n[l1]\nbanks = 64\n")
    chip = load_chip("wide.toml", folder=tmp_path)
    assert (chip.name, chip.cores, chip.l1.banks) == ("wide", 2, 64)
    assert chip == load_chip(tmp_path / "wide.toml")


def test_a_chip_file_without_base_starts_from_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("description = 'mine'\n")
    assert load_chip(tmp_path / "mine.toml") == SocSpec(name="mine", description="mine")


def test_chips_based_on_each_other_are_refused(tmp_path: Path) -> None:
    a, b, c = (tmp_path / f"{name}.toml" for name in "abc")
    a.write_text("base = 'b.toml'")
    b.write_text("base = 'c.toml'")
    c.write_text("base = './b.toml'")
    assert mistakes(a) == [f"{a}: base: chips are based on each other: {b} -> {c} -> {b}"]


def test_a_base_that_is_no_chip_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("base = 3")
    assert mistakes(file) == [f"{file}: base = 3: must be the name or the path of a chip"]


def test_an_unknown_chip_is_refused_with_the_chips_that_there_are() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^chip 'x': no such chip; chips are [\w, -]*pulp[\w, -]*; "
        r"the path of a chip file ends in \.toml$",
    ):
        load_chip("x")
    assert mistakes("plup") == [
        "chip 'plup': no such chip; did you mean pulp? The path of a chip file ends in .toml"
    ]


def test_a_missing_chip_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "absent.toml"
    with pytest.raises(ConfigError, match=f"^{re.escape(str(file))}: cannot be read: .*$"):
        load_chip(file)


def test_mistakes_of_a_chip_are_told_all_at_once_with_the_place_of_each(tmp_path: Path) -> None:
    base = tmp_path / "base.toml"
    base.write_text("cores = 99\n[l1]\nbank = 16")
    chip = tmp_path / "chip.toml"
    chip.write_text("base = 'base.toml'\n[dma]\nqueue = 'long'")
    assert mistakes(chip, **{"l1.banks": 3}) == [
        f"{base}: cores = 99: must be less than or equal to 16 (cores)",
        f"{base}: l1.bank = 16: no such field; did you mean l1.banks?",
        f'{chip}: dma.queue = "long": must be a valid integer (commands)',
    ]
    base.write_text("")
    chip.write_text("")
    assert mistakes(chip, **{"l1.banks": 3}) == [
        "overrides: l1: banks is 3; the number of banks is a power of two"
    ]


def test_places_and_sizes_that_memories_cannot_have_are_refused_all_at_once() -> None:
    fields = {"l2.size": 0x100002, "l2.base": 0x1C000004, "l1.size": 66, "l2.private_size": 12}
    assert mistakes("pulp", **fields, **{"core.reset_pc": 3, "control_page": 0x100}) == [
        "overrides: core.reset_pc = 3: must be a multiple of 2 (address)",
        "overrides: l1.size = 66: must be a multiple of 4 (bytes)",
        "overrides: l2.base = 469762052: must be a multiple of 8 (address)",
        "overrides: l2.size = 1048578: must be a multiple of 8 (bytes)",
        "overrides: l2.private_size = 12: must be a multiple of 8 (bytes each)",
        "overrides: control_page = 256: must be a multiple of 4096 (address)",
    ]
    assert mistakes("pulp", **{"l1.base": 0x10000004}) == [
        "overrides: l1: base 0x10000004 is not the start of a 16-word row"
    ]


def test_places_of_a_chip_lie_apart() -> None:
    assert mistakes("pulp", **{"l2.base": 0x10000000}) == [
        "chip: l2 0x10000000..0x101fffff overlaps l1 with its alias 0x10000000..0x101fffff"
    ]
    assert mistakes("pulp", **{"l2.base": 0x1A180000, "l1.base": 0xFFFF0000}) == [
        "chip: l1 with its alias 0xffff0000..0x1001effff is past 0xffffffff; "
        "l2 0x1a180000..0x1a37ffff overlaps the space of the SoC's registers "
        "0x1a000000..0x1a1fffff"
    ]
    assert mistakes("cv32e40p-rtl", **{"control_page": 0x1C000000}) == [
        "chip: l2 0x1c000000..0x1c03ffff overlaps control_page 0x1c000000..0x1c000fff"
    ]


def test_ports_of_l2_are_for_test_benches_alone():
    assert mistakes("pulp", **{"fabric_controller.fetch": "l2"}) == [
        'chip: fabric_controller.fetch = "l2" is for test benches with a control_page: what the '
        'controller reaches beyond L2 is the bench\'s there; take "ideal"'
    ]

"""The pages of `pulpsim chips`."""

import io
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from pulpsim.commands.inspect.chips import chips_table, fields_table
from soc.chip.spec import SocSpec, chip_names
from soc.config.toml import ConfigError
from soc.config.validation import fields


def printed(page: RenderableType, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    console.print(page)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_all_chips_are_listed_with_their_descriptions() -> None:
    _, *rows = printed(chips_table())
    assert [row.split()[0] for row in rows] == chip_names()
    assert all(len(row.split()) > 3 for row in rows)
    words = " ".join(printed(chips_table(), 60)).split()
    assert sorted(words) == sorted(" ".join(printed(chips_table())).split())


def test_every_field_of_a_chip_is_listed_in_100_columns(tmp_path: Path) -> None:
    chip = tmp_path / "mine.toml"
    chip.write_text("description = 'My chip'\n[l1]\nbanks = 64\n")
    title, header, *rows = printed(fields_table(str(chip)))
    assert title == "mine: My chip"
    assert header.split() == ["field", "value", "unit", "default", "source"]
    first_words = [row.split()[0] for row in rows if row[0] != " "]
    assert first_words == [".".join(path) for path, _ in list(fields(SocSpec))[2:]]
    assert "l1.banks 64 banks 16 pulp_cluster:" in [" ".join(row.split()[:5]) for row in rows]
    assert "l1.base 0x10000000 address pulp" in [" ".join(row.split()[:4]) for row in rows]


def test_the_defaults_of_a_chip_that_has_them_all_need_no_column() -> None:
    _, header, first, *_ = printed(fields_table("pulp"))
    assert header.split() == ["field", "value", "unit", "source"]
    assert first.split() == ["cores", "8", "cores", "pulp_cluster", "caaa973,", "NB_CORES"]


def test_an_unknown_chip_has_no_page() -> None:
    with pytest.raises(ConfigError, match=r"^chip 'plup': no such chip; did you mean pulp\? .*$"):
        fields_table("plup")

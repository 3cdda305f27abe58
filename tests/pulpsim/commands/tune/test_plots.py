"""Pictures of what tuning has measured."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.measurement import Outcome
from autotuner.point import Point
from autotuner.result import Found
from autotuner.space import Space
from pulpsim.commands.tune.plots import check_picture, pareto, write_picture
from pulpsim.commands.tune.result import Tuned
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError


def found(cycles: int | None, size: int, tile: int | None = None, buffers: int = 1) -> Found:
    sizes = None if tile is None else (("n", 1), ("co", tile), ("ci", 64))
    return Found(Point(sizes, (), buffers, 8), Outcome(cycles, size))


@pytest.fixture
def layer() -> Tuned:
    space = Space.of("linear_fw_f32", {"inputs": 64, "outputs": 40}, load_chip("pulp"))
    points = [
        found(1000, 9000),
        found(1200, 5000, 16, 2),
        found(1500, 4000, 8),
        found(9000, 100, 1),
    ]
    points += [found(2000 + tile, 3000, tile) for tile in range(20, 40)]
    return Tuned("fc.fw", space, [*points, found(None, 50)], Outcome(1000, 9000), 5, 5)


def text_of(file: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", file.read_text())


def test_a_picture_names_tiles_units_and_what_it_leaves_out(layer: Tuned, tmp_path: Path) -> None:
    file = tmp_path / "fc.svg"
    write_picture(layer, file)
    text = text_of(file)
    for wanted in (
        "fc.fw: 1,000 cycles at best",
        "linear_fw_f32: inputs 64, outputs 40",
        "all in L1",
        "co 16  ci 64",
        "L1 taken by buffers, kB (1,024 bytes)",
        "cycles of the whole layer, L2 to L2",
        "Tile shapes; a mark: blocking, cores (not shown: 8 slower)",
        "Cycles and bytes of L1 (not shown: 1 slower)",
        "no point has fewer of both",
        "tiles, one buffer",
        "tiles, two buffers",
        "the best",
        "the layer's own choice",
    ):
        assert wanted in text


def test_a_layer_without_a_name_of_its_own_is_named_once(layer: Tuned, tmp_path: Path) -> None:
    file = tmp_path / "fc.svg"
    write_picture(replace(layer, name=layer.space.layer.kernel), file)
    text = text_of(file)
    assert "linear_fw_f32: 1,000 cycles at best" in text
    assert "inputs 64, outputs 40" in text


def test_the_same_points_are_the_same_picture_and_png_is_one_too(
    layer: Tuned, tmp_path: Path
) -> None:
    for name in ("a.svg", "b.svg", "a.png"):
        write_picture(layer, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_no_point_of_the_front_is_worse_than_another_in_both() -> None:
    points = [found(10, 90), found(20, 50), found(30, 50), found(25, 60), found(40, 10)]
    assert pareto(points) == [points[4], points[1], points[0]]


def test_a_picture_that_cannot_be_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file, message in (
        (tmp_path / "a.pdf", r"--picture {}: must end in \.svg or \.png"),
        (tmp_path / "no" / "a.svg", r"--picture {}: there is no folder " + str(tmp_path / "no")),
    ):
        with pytest.raises(ConfigError, match=f"^{message.format(re.escape(str(file)))}$"):
            check_picture(file)
    check_picture(tmp_path / "a.svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        ConfigError,
        match=r"^--picture: needs matplotlib, which is not installed: pip install "
        r"'pulpsim\[plot\]'$",
    ):
        check_picture(tmp_path / "a.png")

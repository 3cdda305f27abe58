"""What the wheel holds, without building one for each Python."""

import tomllib
import zipfile
from pathlib import Path

from tests.release.__main__ import IN_WHEEL, PYTHONS, mistakes

ROOT = Path(__file__).parents[2]


def test_a_wheel_that_lacks_a_file_is_told(tmp_path: Path) -> None:
    wheel = tmp_path / "pulpsim-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in IN_WHEEL[1:]:
            archive.writestr(name, "")
    assert mistakes(wheel) == [f"has no {IN_WHEEL[0]}"]


def test_the_pythons_that_are_tried_are_those_of_the_classifiers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    told = [name for name in project["classifiers"] if name.startswith(prefix)]
    assert [name.removeprefix(prefix) for name in told] == [name[2:] for name in PYTHONS]
    assert project["requires-python"] == f">={PYTHONS[0]}"

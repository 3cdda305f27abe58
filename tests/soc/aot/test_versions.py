"""Nothing is compiled by versions of Numba and llvmlite for which the compiler is not tested."""

import re
import tomllib
from pathlib import Path

import pytest

from soc.aot import versions
from soc.config.toml import ConfigError

ROOT = Path(__file__).parents[3]


def test_the_bounds_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, (first, end) in versions.TESTED.items():
        assert f"{name}>={first},<{end}" in project["dependencies"]


def test_the_installed_versions_are_tested() -> None:
    versions.require_tested()


def test_internals_of_numba_are_named_in_one_module() -> None:
    files = [*(ROOT / "soc").rglob("*.py"), *(ROOT / "isa").rglob("*.py")]
    naming = [f.name for f in files if re.search(r"^from numba\.(core|np)", f.read_text(), re.M)]
    assert naming == ["numba_internals.py"]


@pytest.mark.parametrize("numba", ["0.61.2", "0.69.0", "0.69.0rc1", "1.0.0"])
def test_other_versions_are_refused_with_the_way_out(
    numba: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"numba": numba, "llvmlite": "0.50.0"}
    monkeypatch.setattr(versions, "version", found.__getitem__)
    with pytest.raises(ConfigError) as caught:
        versions.require_tested()

    assert str(caught.value) == (
        f"numba {numba}: the interpreter is compiled by numba from 0.62 on, before 0.69; "
        'pip install "numba>=0.62,<0.69"'
    )


def test_the_first_and_the_last_tested_versions_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    for numba, llvmlite in (("0.62.0", "0.45.0"), ("0.68.9", "0.50.1")):
        monkeypatch.setattr(versions, "version", {"numba": numba, "llvmlite": llvmlite}.get)
        versions.require_tested()

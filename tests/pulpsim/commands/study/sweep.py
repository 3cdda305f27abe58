"""Sweeps of studies as tests make them, without files."""

from typing import Any

from pulpsim.commands.study.result_store import Store
from pulpsim.commands.study.simulate import Simulate
from pulpsim.commands.study.study import Finding, Row, Study
from soc.chip.spec import SocSpec, load_chip
from soc.config.validation import Layer, validated


def findings_of(
    study: Study, arguments: dict[str, Any], chip: SocSpec | None = None
) -> tuple[Any, SocSpec, list[Finding]]:
    """A study's arguments, its chip, and all findings, none of which has failed."""
    spec = chip or load_chip("pulp")
    point = validated(study.arguments, [Layer("test", arguments)])
    store = Store(":memory:")
    found = Simulate(study.name, store)(study.cases(point, spec))
    assert [finding.failure for finding in found if finding.failure] == []
    store.close()
    return point, spec, found


def rows_of(study: Study, arguments: dict[str, Any], chip: SocSpec | None = None) -> list[Row]:
    """The rows of a study."""
    return study.rows(*findings_of(study, arguments, chip))

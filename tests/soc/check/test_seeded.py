"""Programs with a fault and the same without: each fault is found, and nothing else is."""

import pytest

from soc.run import run_program
from tests.soc.check.seeded import MEMORY, PULP, RACES, VARIANTS, seeded

ENGINES = ("compiled", "event")


def checked(scenario, variant, is_faulty, check, engine="compiled"):
    program = seeded(scenario, variant, is_faulty)
    result = run_program(program, PULP, checks=(check,), engine=engine, max_cycles=100_000)
    assert (result.exit.reason, result.exit.code) == ("exit", 0), result.exit.message
    return result.checked.findings


def test_there_are_forty_of_each() -> None:
    assert len(RACES) * len(VARIANTS) >= 40
    assert len(MEMORY) * len(VARIANTS) >= 40


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("scenario", RACES, ids=lambda scenario: scenario.__name__)
def test_a_race_is_found_where_there_is_one(scenario, variant) -> None:
    found = checked(scenario, variant, True, "races")
    assert {finding.kind for finding in found} == {"race"}
    for finding in found:
        one, other = finding.accesses
        assert "writes" in (one.does, other.does)
        assert (one.who, one.hart) != (other.who, other.hart)
    assert checked(scenario, variant, False, "races") == ()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("scenario", MEMORY, ids=lambda scenario: scenario.__name__)
def test_a_misused_byte_is_found_where_there_is_one(scenario, variant) -> None:
    kind = scenario.__doc__.partition(":")[0]
    found = checked(scenario, variant, True, "memory")
    assert {finding.kind for finding in found} == {kind}
    assert checked(scenario, variant, False, "memory") == ()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("is_faulty", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("scenario", [*RACES, *MEMORY], ids=lambda scenario: scenario.__name__)
def test_both_engines_find_the_same(scenario, variant, is_faulty) -> None:
    check = "races" if scenario in RACES else "memory"
    found = [checked(scenario, variant, is_faulty, check, engine) for engine in ENGINES]
    assert found[0] == found[1]

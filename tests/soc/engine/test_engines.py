"""Both engines come to the same: cycles, counters, registers, memories."""

import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from isa.compiled import SINK
from isa.program import Program
from soc.result import RunResult
from soc.run import ENGINES, run_program
from tests.soc.random_programs import PIECES, random_program
from trainlib.launch import program as kernel_program

ELFS = Path(__file__).parents[2] / "oracles" / "elfs.tar.xz"
REGULAR, FULL = 6, 1000
"""Seeds 0, 1, ... of the random programs."""

STATE = ("pc", "fflags", "frm", "mstatus", "lp_start", "lp_end", "lp_count", "counter")
"""Fields of a hart that a program can see."""

LIMITS = {
    "ubench": 2_000_000,
    **dict.fromkeys(("speed2_mm_hwl", "speed2_mm_2x2", "speed2_mm_naive"), 500_000),
}
"""Cycles with --full: ubench to its end; of the hundreds of equal products in speed2 some ten."""

SHORT = 30_000
"""Cycles in a regular run."""


@dataclass(frozen=True)
class End:
    """What a run leaves."""

    report: dict[str, Any]
    harts: dict[str, list]
    memories: dict[str, bytes]

    @classmethod
    def of(cls, result: RunResult) -> "End":
        report = {key: value for key, value in result.to_json().items() if key != "host"}
        harts = {name: result.chip.harts[name].tolist() for name in STATE}
        harts["regs"] = result.chip.harts["regs"][:, :SINK].tolist()
        memories = {"l1": result.chip.l1.tobytes(), "l2": result.chip.l2.tobytes()}
        return cls(report, harts, memories)


def ends(program: Program, max_cycles: int) -> list[End]:
    """What each engine leaves."""
    return [
        End.of(run_program(program, engine=engine, max_cycles=max_cycles)) for engine in ENGINES
    ]


def difference(one: Any, other: Any, place: str = "") -> str:
    """The first place in which two values differ: "harts.3.stalls.event: 12, 13"; "" if nowhere."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(key, one.get(key), other.get(key)) for key in {**one, **other}]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(index, *values) for index, values in enumerate(zip(one, other, strict=True))]
    else:
        return "" if one == other else f"{place[1:]}: {one!r:.80}, {other!r:.80}"
    differences = (difference(a, b, f"{place}.{key}") for key, a, b in pairs)
    return next((text for text in differences if text), "")


def differences(ends: list[End]) -> str:
    one, other = (vars(end) for end in ends)
    return difference(one, other)


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    with tarfile.open(ELFS) as archive:
        names = [name for name in archive.getnames() if name.startswith("pulp_open/")]
        return {
            Path(name).stem: Program.from_elf(file.read(), name)
            for name in names
            if (file := archive.extractfile(name))
        }


def test_hello_leaves_the_same(programs: dict[str, Program]) -> None:
    one, other = ends(programs["hello"], 100_000)

    assert one.report["exit"] == {"reason": "exit", "code": 0}
    assert not differences([one, other])


@pytest.mark.parametrize("name", LIMITS)
def test_a_program_leaves_the_same_up_to_a_limit(
    name: str, programs: dict[str, Program], request: pytest.FixtureRequest
) -> None:
    limit = LIMITS[name] if request.config.getoption("--full") else SHORT
    one, other = ends(programs[name], limit)

    assert one.report["cycles"] > SHORT - 1
    assert not differences([one, other])


def training_step() -> Program:
    """A network's, whose tensors the DMA fetches and brings back while the cores work."""
    layers = [
        {"kind": "conv2d", "outputs": 16, "kernel": 3},
        {"kind": "relu"},
        {"kind": "linear", "outputs": 32},
    ]
    arguments = {"input": [8, 8, 8], "lr": 0.1, "steps": 1, "layers": layers}
    return kernel_program("train_f32", arguments, "pulp").program


def test_a_training_step_in_which_dma_and_cores_compete_leaves_the_same(
    request: pytest.FixtureRequest,
) -> None:
    is_full = request.config.getoption("--full")
    one, other = ends(training_step(), 100_000 if is_full else 25_000)

    assert one.report["exit"]["reason"] == ("exit" if is_full else "max_cycles")
    assert one.report["dma"]["l1_conflicts"] > (10_000 if is_full else 500)
    assert not differences([one, other])


def test_random_programs_for_eight_cores_leave_the_same(request: pytest.FixtureRequest) -> None:
    is_full = request.config.getoption("--full")
    for seed in range(FULL if is_full else REGULAR):
        one, other = ends(random_program(seed), 100_000)
        assert one.report["exit"] == {"reason": "exit", "code": 0}, seed
        assert not differences([one, other]), (seed, differences([one, other]))


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.__name__)
def test_programs_of_one_kind_of_piece_leave_the_same(piece: Any) -> None:
    """Smaller than the mixed ones: what goes wrong shows where."""
    program = random_program(1, rounds=2, pieces=4, kinds={piece: 1})
    one, other = ends(program, 100_000)

    assert one.report["exit"] == {"reason": "exit", "code": 0}
    assert not differences([one, other])


def test_a_difference_is_named_by_its_place() -> None:
    one = {"cycles": 5, "harts": [{"stalls": {}}, {"stalls": {"event": 1}}]}
    other = {"cycles": 5, "harts": [{"stalls": {}}, {"stalls": {"event": 2}}]}

    assert difference(one, other) == "harts.1.stalls.event: 1, 2"
    assert difference(one, one) == ""

"""The study of banking, and the kernels that studies measure."""

import pytest

from pulpsim.commands.study import banking
from pulpsim.commands.study.kernels import SIZES, kernels_of, sizes_of_repeated
from pulpsim.commands.study.microbenchmark import chip_with
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from tests.pulpsim.commands.study.sweep import findings_of


def test_conflicts_are_those_of_the_computation_and_a_single_core_has_none() -> None:
    arguments = {"kernels": ["layernorm_fw_f32"], "banks": [4, 64], "cores": [1, 8]}
    point, chip, findings = findings_of(banking.STUDY, arguments)
    rows = banking.rows(point, chip, findings)
    assert [(r["cores"], r["banks"]) for r in rows] == [(1, 4), (1, 64), (8, 4), (8, 64)]
    for row, finding in zip(rows, findings, strict=True):
        spent = 0
        for hart in finding.result["harts"]:
            for region in hart["regions"]:
                if region["name"] == "compute":
                    spent += region["cycles"]
        assert row["conflict_share"] == row["conflict_cycles"] / spent
        assert finding.result["program"]["warm"]
        assert finding.result["program"]["correct"]
    assert [row["conflict_cycles"] for row in rows[:2]] == [0, 0]
    assert rows[0]["cycles"] == rows[1]["cycles"]
    assert rows[2]["conflict_share"] > rows[3]["conflict_share"] > 0


def test_every_kernel_that_is_given_by_name_alone_can_be_built_on_sixteen_cores() -> None:
    arguments = {"kernels": list(SIZES), "banks": [16], "cores": [16]}
    assert len(findings_of(banking.STUDY, arguments)[2]) == len(SIZES)


def test_a_chip_with_more_cores_has_more_dma_ports() -> None:
    chip = load_chip("pulp")
    assert chip_with(chip, {"cores": 8}).dma.ports == 10
    assert chip_with(chip, {"cores": 12}).dma.ports == 14
    assert chip_with(chip, {"cores": 16}).dma.ports == 16


def test_the_same_kernel_twice_gets_a_number() -> None:
    small = {"kernel": "matmul_f32", "args": {"n": 8, "k": 8, "m": 8}}
    entries = ["matmul_f32", small, "relu_fw_f32"]
    assert list(kernels_of(entries)) == ["matmul_f32", "matmul_f32 (2)", "relu_fw_f32"]
    assert sizes_of_repeated(entries) == [
        "matmul_f32: n 32, k 32, m 32",
        "matmul_f32 (2): n 8, k 8, m 8",
    ]


MATMUL = {"n": 8, "k": 8, "m": 8}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("matmul_f23", r"kernel 'matmul_f23': no such kernel; did you mean matmul_f32\?"),
        (
            "lstm_fw_f32",
            r'kernels: lstm_fw_f32 needs a size: \{ kernel = "lstm_fw_f32", args = \{ ... \} \}; '
            r"by name alone there are matmul_f32, .*",
        ),
        (3, r"kernels.1 = 3: must be a name, or a table with kernel and args"),
        ({"kernel": "matmul_f32"}, r"kernels.1: args: missing"),
        (
            {"kernel": "matmul_f32", "args": {"n": 8, "k": 8}},
            r"kernels.1: matmul_f32: m: missing",
        ),
        (
            {"kernel": "matmul_f32", "args": {**MATMUL, "cores": 4}},
            r"kernels.1: matmul_f32: cores: the study chooses it; leave it out",
        ),
    ],
)
def test_a_kernel_that_cannot_be_measured_is_told(entry: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}$"):
        kernels_of([entry])


def test_kernels_without_a_size_are_told_together() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^kernels: lstm_fw_f32, adam_f32 need sizes: \{ kernel = \"lstm_fw_f32\", args = "
        r"\{ ... \} \}; by name alone there are matmul_f32, .*\nkernels.2 = 3: .*$",
    ):
        kernels_of(["lstm_fw_f32", 3, "matmul_f32", "adam_f32", "lstm_fw_f32"])


def test_all_bad_kernels_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"^kernels.1 = 3: .*\nkernels.2 = 4: .*$"):
        kernels_of([3, 4])

"""Programs of kernels by name: what they are given, what they tell, what is refused."""

import numpy as np
import pytest

from soc.run import run_program
from soc.spec import load_chip
from soc.toml_file import ConfigError
from trainlib.launch import KERNELS, launch, program

SHAPE = {"n": 4, "k": 3, "m": 5}


def test_arrays_go_in_and_come_out():
    a = np.arange(12, dtype=np.float64).reshape(4, 3)
    b = np.arange(15, dtype=np.int64).reshape(3, 5)
    result, built = launch("matmul_f32", SHAPE, inputs={"A": a, "B": b}, max_cycles=100_000)
    assert built.read(result)["C"].tolist() == (a @ b).tolist()
    assert built.check(result)["max_error"] == 0


def test_random_operands_follow_from_the_seed():
    first, again = (program("matmul_f32", SHAPE) for _ in range(2))
    other = program("matmul_f32", SHAPE | {"seed": 1})
    assert first.program == again.program
    assert (first.inputs["A"] != other.inputs["A"]).all()
    assert first.inputs["A"].dtype == np.float32


def test_a_result_has_the_names_of_the_regions():
    result, _ = launch("matmul_f32", SHAPE, max_cycles=100_000)
    harts = result.to_json()["harts"]
    names = [[region["name"] for region in hart["regions"]] for hart in harts]
    assert names == [["dma_in", "compute", "dma_out"]] * 8 + [[]]


def test_nan_and_infinity_go_through_as_in_the_reference():
    a = np.ones((4, 3), np.float32)
    a[0, 0], a[1, 0], a[2, 0] = np.nan, np.inf, -np.inf
    b = np.ones((3, 5), np.float32)
    result, built = launch("matmul_f32", SHAPE, inputs={"A": a, "B": b}, max_cycles=100_000)
    c = built.read(result)["C"]
    assert np.isnan(c[0]).all()
    assert (c[1] == np.inf).all()
    assert (c[2] == -np.inf).all()
    assert built.check(result)["correct"]


def test_a_wrong_output_is_told():
    result, built = launch("matmul_f32", SHAPE, max_cycles=100_000)
    address, _ = built.outputs["C"]
    word = (address - result.spec.l2.base) // 4
    result.chip.l2[word] = np.float32(7.5).view(np.int32)
    report = built.check(result)
    assert not report["correct"]
    assert report["max_error"] == pytest.approx(
        abs(7.5 - (built.inputs["A"] @ built.inputs["B"])[0, 0]), rel=1e-6
    )
    result.chip.l2[word] = np.float32(np.nan).view(np.int32)
    assert built.check(result)["max_error"] is None
    assert not built.check(result)["correct"]


def test_a_run_that_does_not_end_is_not_correct():
    result, built = launch("matmul_f32", SHAPE, max_cycles=100)
    assert result.exit.reason == "max_cycles"
    report = built.check(result)
    assert (report["correct"], report["macs_per_cycle"]) == (False, None)


def test_the_program_of_an_elf_file_is_the_same():
    built = program("matmul_f32", SHAPE)
    from isa.program import Program

    result = run_program(Program.from_elf(built.program.to_elf()), max_cycles=100_000)
    assert built.check(result)["correct"]


def test_unknown_kernels_and_bad_arguments_are_told_all_at_once():
    with pytest.raises(
        ConfigError, match=r"^kernel 'matmul_f23': no such kernel; did you mean matmul_f32\?$"
    ):
        program("matmul_f23", SHAPE)
    with pytest.raises(
        ConfigError, match=r"^kernel 'x': no such kernel; the kernels are matmul_f32$"
    ):
        program("x", SHAPE)
    with pytest.raises(ConfigError) as caught:
        program("matmul_f32", {"n": 0, "k": "3", "row": 4, "split": "diagonal"}, source="run.toml")
    assert caught.value.mistakes == [
        "run.toml: program.args.n = 0: must be greater than or equal to 1",
        'run.toml: program.args.k = "3": must be a valid integer',
        "run.toml: program.args.m: missing",
        "run.toml: program.args.split = \"diagonal\": must be 'rows' or 'columns' or a valid tuple",
        "run.toml: program.args.row = 4: no such field; did you mean program.args.rows?",
    ]
    with pytest.raises(ConfigError, match=r"^matmul_f32: n: missing$"):
        program("matmul_f32", {"k": 1, "m": 1})


def test_inputs_of_other_shapes_are_refused():
    a, b = np.zeros((4, 3)), np.zeros((3, 5))
    for inputs, message in (
        ({"A": b, "B": b}, r"^matmul_f32: A has shape \(3, 5\); the arguments say \(4, 3\)$"),
        ({"A": a}, r"^matmul_f32: B has shape None; the arguments say \(3, 5\)$"),
        ({"A": a, "B": b, "D": b}, r"^matmul_f32: D has shape \(3, 5\); the arguments say None$"),
    ):
        with pytest.raises(ValueError, match=message):
            program("matmul_f32", SHAPE, inputs=inputs)


def test_every_kernel_is_known_by_its_name():
    assert all(family.name == name for name, family in KERNELS.items())
    assert program("matmul_f32", SHAPE, load_chip("pulp")).program == (
        program("matmul_f32", SHAPE, "pulp").program
    )

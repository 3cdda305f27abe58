"""Programs of kernels by name: what they are given, what they tell, what is refused."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from firmware.builder import POISON, CodeTooLarge, KernelError
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from soc.run import run_program
from trainlib.launch import launch, program
from trainlib.npz import read_npz
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.operator import Family
from trainlib.primitive.tensor import INT32, Tensor
from trainlib.registry import KERNELS
from trainlib.report import Report

ROOT = Path(__file__).parents[2]

SHAPE = {"n": 4, "k": 3, "m": 5}


def test_arrays_go_in_and_come_out():
    a = np.arange(12, dtype=np.float64).reshape(4, 3)
    b = np.arange(15, dtype=np.int64).reshape(3, 5)
    outputs, report = launch("matmul_f32", SHAPE, inputs={"A": a, "B": b}, max_cycles=100_000)
    assert outputs["C"].tolist() == (a @ b).tolist()
    assert report.max_error == 0


def test_torch_tensors_go_in_and_come_out():
    torch = pytest.importorskip("torch")
    a = torch.arange(12, dtype=torch.float64).reshape(4, 3).requires_grad_()
    b = np.arange(15).reshape(3, 5)
    outputs, _ = launch("matmul_f32", SHAPE, inputs={"A": a, "B": b}, max_cycles=100_000)
    assert torch.equal(outputs["C"], (a @ torch.tensor(b, dtype=torch.float64)).float())


def test_arguments_may_be_of_types_of_numpy_and_a_chip_a_path():
    sizes = {"n": np.int64(4), "k": np.int32(3), "m": np.prod([5]), "trans_a": np.bool_(False)}
    given = sizes | {"split": np.array([2, 2]), "tile": {"n": np.int8(2)}}
    chip = ROOT / "configs" / "pulp.toml"
    built = program("matmul_f32", given, chip)
    assert (
        built.program == program("matmul_f32", SHAPE | {"split": [2, 2], "tile": {"n": 2}}).program
    )
    _, report = launch("sgd_f32", {"shape": [3], "lr": np.float32(0.5)}, chip, max_cycles=100_000)
    assert report.is_correct


def test_sixteen_cores_share_the_dma():
    chip = load_chip("pulp", {"cores": 16, "dma.ports": 16})
    point = {"n": 33, "k": 17, "m": 20, "tile": {"n": 16, "k": 8}}
    assert launch("matmul_f32", point, chip, max_cycles=100_000)[1].is_correct


def test_torch_is_never_imported_here():
    code = "import sys, trainlib.launch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_random_operands_follow_from_the_seed():
    first, again = (program("matmul_f32", SHAPE) for _ in range(2))
    other = program("matmul_f32", SHAPE | {"seed": 1})
    assert first.program == again.program
    assert (first.inputs["A"] != other.inputs["A"]).all()
    assert first.inputs["A"].dtype == np.float32


def test_a_result_has_the_names_of_the_regions():
    _, report = launch("matmul_f32", SHAPE, max_cycles=100_000)
    harts = report.result.to_json()["harts"]
    names = [[region["name"] for region in hart["regions"]] for hart in harts]
    assert names == [["dma_in", "compute", "dma_out"]] * 8 + [[]]
    assert list(report.regions) == ["dma_in", "compute", "dma_out"]


def test_a_report_says_how_fast_and_what_it_waited_for():
    _, report = launch("matmul_f32", SHAPE, max_cycles=100_000)
    harts = report.result.to_json()["harts"][:8]
    passed = [hart["regions"][1] for hart in harts]
    assert report.macs == 4 * 3 * 5
    assert report.cycles == max(region["cycles"] for region in passed)
    assert report.macs_per_cycle == 60 / report.cycles
    assert report.stalls["event"] == sum(region["stalls"].get("event", 0) for region in passed)
    assert report.regions["compute"].instructions == sum(r["instructions"] for r in passed)
    assert report.regions["compute"].count == 1
    assert report.dma_overlap == 0


def test_what_the_dma_does_while_cores_compute_overlaps():
    region = {"count": 1, "first_start": 0, "instructions": 0, "stalls": {}}
    stored = {
        "harts": [{"regions": [region | {"name": "dma_wait", "cycles": 25}]}],
        "dma": {"beats": [40, 60]},
    }
    result = SimpleNamespace(to_json=lambda: stored)
    report = Report(result, 1, {}, {})
    assert report.dma_overlap == 0.75
    assert (report.cycles, report.macs_per_cycle, report.stalls) == (0, None, {})
    stored["dma"] = {"beats": [0, 0]}
    assert report.dma_overlap is None


def test_nan_and_infinity_go_through_as_in_the_reference():
    a = np.ones((4, 3), np.float32)
    a[0, 0], a[1, 0], a[2, 0] = np.nan, np.inf, -np.inf
    b = np.ones((3, 5), np.float32)
    outputs, report = launch("matmul_f32", SHAPE, inputs={"A": a, "B": b}, max_cycles=100_000)
    c = outputs["C"]
    assert np.isnan(c[0]).all()
    assert (c[1] == np.inf).all()
    assert (c[2] == -np.inf).all()
    assert report.is_correct


def test_a_wrong_output_is_told():
    built = program("matmul_f32", SHAPE)
    result = run_program(built.program, max_cycles=100_000)
    address, _ = built.outputs["C"]
    word = (address - result.spec.l2.base) // 4
    result.chip.l2[word] = np.float32(7.5).view(np.int32)
    report = built.report(result).to_json()
    assert not report["correct"]
    assert report["max_error"] == pytest.approx(
        abs(7.5 - (built.inputs["A"] @ built.inputs["B"])[0, 0]), rel=1e-6
    )
    result.chip.l2[word] = np.float32(np.nan).view(np.int32)
    assert built.report(result).max_error is None
    assert not built.report(result).is_correct


def test_the_limit_of_a_rate_is_that_of_the_cores_and_of_pairs():
    for kernel, cores, limit in (("matmul_f32", None, 8), ("matmul_bf16", 3, 6)):
        _, report = launch(kernel, SHAPE | {"cores": cores})
        found = report.to_json()
        assert found["macs_per_cycle"] < found["macs_per_cycle_limit"] == limit


def test_a_run_that_does_not_end_is_not_correct():
    _, report = launch("matmul_f32", SHAPE, max_cycles=100)
    assert report.result.exit.reason == "max_cycles"
    assert (report.is_correct, report.macs_per_cycle) == (False, None)


def test_stray_writes_are_told_byte_by_byte():
    built = program("matmul_f32", SHAPE, guard=64)
    result = run_program(built.program, max_cycles=100_000)
    assert built.report(result).stray_writes == []
    (c, tensor), l1 = built.outputs["C"], result.spec.l1.base
    assert result.read(c - 4, 4) == POISON
    assert result.read(c + tensor.size, 64) == POISON * 16
    a = built.program.symbol("A").address
    code = built.program.entry
    result.chip.l1.view(np.uint8)[[0, 63]] = 0
    for address in (c - 1, c, c + tensor.size, a, code):
        result.chip.l2.view(np.uint8)[address - result.spec.l2.base] ^= 1
    assert sorted(built.report(result).stray_writes) == [
        l1, l1 + 63, code, a, c - 1, c + tensor.size
    ]  # fmt: skip


def test_the_program_of_an_elf_file_is_the_same():
    built = program("matmul_f32", SHAPE)
    from isa.program import Program

    result = run_program(Program.from_elf(built.program.to_elf()), max_cycles=100_000)
    assert built.report(result).is_correct


def test_unknown_kernels_and_bad_arguments_are_told_all_at_once():
    with pytest.raises(
        ConfigError, match=r"^kernel 'matmul_f23': no such kernel; did you mean matmul_f32\?$"
    ):
        program("matmul_f23", SHAPE)
    with pytest.raises(
        ConfigError, match=r"^kernel 'x': no such kernel; `pulpsim kernels` lists them all$"
    ):
        program("x", SHAPE)
    with pytest.raises(ConfigError) as caught:
        program("matmul_f32", {"n": 0, "k": "3", "row": 4, "split": "diagonal"}, source="run.toml")
    assert caught.value.mistakes == [
        "run.toml: program.args.n = 0: must be greater than or equal to 1",
        'run.toml: program.args.k = "3": must be a valid integer',
        "run.toml: program.args.m: missing",
        'run.toml: program.args.split = "diagonal": must be a list, such as [4, 2]',
        "run.toml: program.args.row = 4: no such field; did you mean program.args.rows?",
    ]
    with pytest.raises(ConfigError, match=r"^matmul_f32: n: missing$"):
        program("matmul_f32", {"k": 1, "m": 1})


def test_how_long_a_list_has_to_be_is_told():
    image = {"inputs": 3, "outputs": 4, "height": 8, "width": 8}
    for given, message in (
        (
            {"kernel": 3, "padding": (1, 2)},
            r"^conv2d_fw_f32: padding = \(1, 2\): must be a list of 4$",
        ),
        ({"kernel": (3,)}, r"^conv2d_fw_f32: kernel = \(3,\): must be a list of 2$"),
        ({"kernel": (3, 3, 3)}, r"^conv2d_fw_f32: kernel = \(3, 3, 3\): must be a list of 2$"),
    ):
        with pytest.raises(ConfigError, match=message):
            program("conv2d_fw_f32", image | given)


def test_inputs_of_other_shapes_or_types_are_refused():
    a, b = np.zeros((4, 3)), np.zeros((3, 5))
    for inputs, message in (
        ({"A": b, "B": b}, r"^matmul_f32: A has shape \(3, 5\); the arguments say \(4, 3\)$"),
        ({"A": a}, r"^matmul_f32: B is missing; the arguments say \(3, 5\)$"),
        ({"A": a, "B": b, "D": b}, r"^matmul_f32: no input D; its inputs are A, B$"),
        ({"A": a, "B": b + 1j}, r"^matmul_f32: B is of type complex128; it takes numbers$"),
        ((a, b), r"^matmul_f32: inputs are a tuple; they are arrays by name: A, B$"),
        ({"A": a, "B": [[1, 2], [3]]}, r"^matmul_f32: B is no array: setting an array element .*$"),
        (
            {"A": b, "C": b},
            r"^matmul_f32: no input C; its inputs are A, B\n"
            r"matmul_f32: A has shape \(3, 5\); the arguments say \(4, 3\)\n"
            r"matmul_f32: B is missing; the arguments say \(3, 5\)$",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            program("matmul_f32", SHAPE, inputs=inputs)


def test_tensors_of_torch_that_are_no_arrays_are_refused():
    torch = pytest.importorskip("torch")
    inputs = {"A": torch.ones(4, 3).to_sparse(), "B": torch.ones(3, 5)}
    with pytest.raises(ValueError, match=r"^matmul_f32: A is no array: can't convert Sparse .*$"):
        program("matmul_f32", SHAPE, inputs=inputs)


def test_what_cannot_be_built_is_told_with_the_name_that_was_asked_for():
    for kernel, point, message in (
        (
            "linear_fw_f32",
            {"inputs": 3, "outputs": 2, "rows": 9},
            r"^linear_fw_f32: matmul_f32: rows 9; any core's rows are at most 1, so 1 to 1$",
        ),
        (
            "matmul_f32",
            {"n": 2000, "k": 2000, "m": 1},
            r"^matmul_f32: L2: A of 16000000 bytes does not fit: 1966080 of 1966080 "
            r"bytes are left$",
        ),
        (
            "leaky_relu_fw_f32",
            {"shape": [3], "slope": 1e39},
            r"^leaky_relu_fw_f32: 1e\+39 is no float32; the largest is 3.40282e\+38$",
        ),
    ):
        with pytest.raises(KernelError, match=message):
            program(kernel, point)
    with pytest.raises(
        KernelError,
        match=r"^matmul_f32: 12 cores, of which dma.ports = 11 can start the DMA; set dma.ports to "
        r"12, or cores to 11$",
    ):
        program("matmul_f32", SHAPE, load_chip("pulp", {"cores": 12, "dma.ports": 11}))
    with pytest.raises(
        ValueError, match=r"^matmul_f32: guard -4; it is a number of bytes from 0 on$"
    ):
        program("matmul_f32", SHAPE, guard=-4)


def pick_family():
    """y[0] = x[i[0]], z[0] += 1 as a family: integers, and what is read and overwritten."""

    def tensors(_):
        scratch = Tensor((3,), "scratch")
        return {
            "x": Tensor((5,)),
            "i": Tensor((1,), dtype=INT32, below=5),
            "y": Tensor((1,), "out"),
            "z": Tensor((1,), "inout", INT32),
            "s": scratch,
        }

    def reference(_, values):
        exact = values["x"][values["i"]].astype(np.float64)
        return {"y": (exact, 0.0), "z": (values["z"] + 1, 0)}

    def emit_l1(k, team, point, l1):
        with team.only(0), k.scope():
            a, b = k.x(2)
            k.set(a, l1["i"])
            k.lw(a, 0, a)
            k.slli(a, a, 2)
            k.set(b, l1["x"])
            k.add(a, a, b)
            k.fload(b, 0, a)
            k.set(a, l1["y"])
            k.fstore(b, 0, a)
            k.set(a, l1["z"])
            k.lw(b, 0, a)
            k.addi(b, b, 1)
            k.sw(b, 0, a)
            k.set(a, l1["s"], 8)
            k.sw(b, 0, a)

    return Family(
        "pick",
        TiledArguments,
        tensors,
        reference,
        lambda _: 0,
        emit_l1,
        draw=lambda _, numbers: {"z": numbers.integers(40, 50, 1).astype(INT32)},
    )


@pytest.fixture
def pick(monkeypatch):
    monkeypatch.setitem(KERNELS, "pick", pick_family())


def test_integers_and_tensors_that_are_overwritten_go_in_and_out(pick):
    inputs = {"x": range(5), "i": [3], "z": np.array([-7])}
    outputs, report = launch("pick", {}, inputs=inputs, guard=32, max_cycles=100_000)
    assert (outputs["y"].tolist(), outputs["z"].tolist()) == ([3.0], [-6])
    assert outputs["z"].dtype == np.int32
    assert report.is_correct
    assert report.stray_writes == []
    assert report.macs_per_cycle == 0


def test_random_integers_stay_below_their_limit_and_a_family_draws_its_own(pick):
    drawn = [program("pick", {"seed": seed}).inputs for seed in range(40)]
    assert {int(values["i"][0]) for values in drawn} == set(range(5))
    assert all(40 <= values["z"][0] < 50 for values in drawn)
    _, report = launch("pick", {"cores": 2}, max_cycles=100_000)
    assert report.is_correct


def test_integers_are_integers_of_32_bits(pick):
    for i, message in (
        ([0.5], r"^pick: i is of type float64; it takes integers$"),
        ([1 << 31], r"^pick: i has values of 2147483648 to 2147483648; it takes int32$"),
    ):
        with pytest.raises(ValueError, match=message):
            program("pick", {}, inputs={"x": range(5), "i": i, "z": [0]})


def test_arrays_of_a_file_are_inputs(tmp_path):
    file = tmp_path / "values.npz"
    np.savez(file, A=np.ones((4, 3)), B=np.ones((3, 5)))
    assert program("matmul_f32", SHAPE, inputs=read_npz(file)).inputs["B"].shape == (3, 5)
    with pytest.raises(ValueError, match=rf"^{tmp_path}/x: cannot be read: No such file or dir"):
        read_npz(tmp_path / "x")
    for contents in (b"", b"PK\3\4", b"text"):
        file.write_bytes(contents)
        with pytest.raises(
            ValueError, match=rf"^{file}: not an .npz file; numpy.savez writes one$"
        ):
            read_npz(file)
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(ValueError, match=r"^.*one.npy: not an .npz file; numpy.savez writes one$"):
        read_npz(tmp_path / "one.npy")


def test_every_kernel_is_known_by_its_name():
    assert all(family.name == name for name, family in KERNELS.items())
    assert program("matmul_f32", SHAPE, load_chip("pulp")).program == (
        program("matmul_f32", SHAPE, "pulp").program
    )


def test_code_larger_than_usual_gets_the_room_that_it_takes(monkeypatch):
    point = {"shape": (8, 40), "axis": 1, "unroll": 8}
    refused = (
        r"^softmax_fw_f32: (\d+) bytes of code; there is room for 128: let code be \1 or more$"
    )
    with pytest.raises(CodeTooLarge, match=refused):
        program("softmax_fw_f32", point, code=100)
    monkeypatch.setattr("trainlib.launch.CODE", 100)
    assert launch("softmax_fw_f32", point)[1].is_correct

"""ELF files of primitives are built anew from what they say of their origin, and compared."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from isa.program import Program
from soc.run import run_program
from trainlib.launch import program
from trainlib.rebuild import OriginError, rebuilt

MATMUL = "matmul_f32", {"n": 12, "k": 8, "m": 10}
OTHERS = [
    ("conv2d_fw_bf16", {"inputs": 4, "outputs": 4, "height": 8, "width": 8, "kernel": 3}),
    ("adam_f32", {"shape": [100], "lr": 0.01}),
    ("linear_fw_f32", {"inputs": 640, "outputs": 128, "tile": {"co": 16}}),
]


def written(kernel: str, arguments: dict[str, Any], **how: Any) -> Program:
    return Program.from_elf(program(kernel, arguments, **how).program.to_elf(), "file")


@pytest.mark.parametrize(("kernel", "arguments"), [MATMUL, *OTHERS])
def test_a_file_becomes_the_primitive_that_it_was(kernel: str, arguments: dict[str, Any]) -> None:
    file = written(kernel, arguments)
    again = rebuilt(file)
    assert again.family.name == kernel
    assert again.program == file
    assert again.report(run_program(file)).is_correct


def test_its_inputs_are_those_of_the_file() -> None:
    a, b = np.eye(12, 8, dtype="f4"), np.arange(80, dtype="f4").reshape(8, 10)
    again = rebuilt(written(*MATMUL, inputs={"A": a, "B": b}))
    assert (again.inputs["A"] == a).all()
    assert (again.inputs["B"] == b).all()


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        (b"", "is no kernel and its arguments"),
        (b"[" * 60_000, "is no kernel and its arguments"),
        (b"\xff{}", "is no kernel and its arguments"),
        (b'{"kernel": "matmul_f32"}', "is no kernel and its arguments"),
        (b'{"kernel": "no_such", "arguments": {}}', "no such program of no_such can be built"),
        (b'{"kernel": "matmul_f32", "arguments": {"n": 1e99}}', "no such program of matmul_f32"),
        (b'{"kernel": "relu_fw_f32", "arguments": {"shape": [4]}}', "no such program of relu_fw"),
        (
            json.dumps({"kernel": MATMUL[0], "arguments": {"n": 9, "k": 8, "m": 10}}).encode(),
            "this version builds another program of matmul_f32 for this chip",
        ),
    ],
)
def test_what_says_something_else_is_not_believed(origin: bytes, reason: str) -> None:
    with pytest.raises(OriginError, match=reason):
        rebuilt(replace(written(*MATMUL), origin=origin))


def test_code_that_was_changed_is_another_program() -> None:
    file = written(*MATMUL)
    first, *rest = file.segments
    changed = first._replace(data=first.data[:-4] + b"\x13\0\0\0")
    with pytest.raises(OriginError, match="another program of matmul_f32"):
        rebuilt(replace(file, segments=(changed, *rest)))


def test_another_chip_has_another_program() -> None:
    with pytest.raises(OriginError, match="for this chip"):
        rebuilt(written(*MATMUL), "pulp-cv32e40p")

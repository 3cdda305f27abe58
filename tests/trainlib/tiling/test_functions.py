"""Primitives as functions: the same results with any operands, code and tables once."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from firmware.builder import KernelError
from firmware.runtime import new_kernel, team_of
from soc.chip.spec import load_chip
from soc.run import run_program
from trainlib.launch import checked, launch
from trainlib.registry import family_of
from trainlib.tiling.functions import MOST, Functions, decoded
from trainlib.tiling.records import LONGEST, Operand

ROOT = Path(__file__).parents[3]
TIGHT = load_chip("pulp", {"l1.size": 0x4000})
TIGHT_CV32E40P = load_chip("pulp-cv32e40p", {"l1.size": 0x4000})
PULP = load_chip("pulp")
IMAGES = {"height": 12, "width": 10, "kernel": 3, "padding": 1}
SHARED = {
    "all in L1": ("sgd_f32", {"shape": (100,), "lr": 0.1}, TIGHT),
    "copies ahead": ("sgd_f32", {"shape": (3000,), "lr": 0.1, "weight_decay": 0.1}, TIGHT),
    "streams": ("linear_fw_f32", {"inputs": 200, "outputs": 64, "bias": True}, TIGHT),
    "lines": ("linear_wg_f32", {"inputs": 90, "outputs": 40, "batch": 4}, TIGHT),
    "lines on both sides": ("conv2d_fw_f32", {"inputs": 12, "outputs": 8, **IMAGES}, TIGHT),
    "columns": (
        "conv2d_fw_f32",
        {"inputs": 6, "outputs": 8, **IMAGES, "method": "columns_by_dma"},
        TIGHT,
    ),
    "each core by itself": (
        "dwconv2d_fw_f32",
        {
            "inputs": 16,
            "height": 25,
            "width": 5,
            "kernel": 3,
            "padding": 1,
            "bias": True,
            "tile": {},
        },
        PULP,
    ),
    "lines of cores that are summed up": (
        "dwconv2d_wg_f32",
        {"inputs": 5, "height": 27, "width": 14, "kernel": 3, "padding": 1, "tile": {}},
        PULP,
    ),
    "phases": ("batchnorm_fw_f32", {"c": 2, "hw": 3000}, TIGHT),
    "buffers between phases": (
        "groupnorm_bw_f32",
        {"c": 4, "hw": 900, "groups": 2, "tile": {"hw": 100, "groups": 1, "size": 1}},
        TIGHT,
    ),
    "CV32E40P": ("linear_wg_f32", {"inputs": 90, "outputs": 40, "batch": 4}, TIGHT_CV32E40P),
    "one core": ("relu_fw_f32", {"shape": (3000,), "cores": 1}, TIGHT),
}


def called(kernel, arguments, chip, *, times, apart=20):
    """A program that calls a primitive several times, its operands wherever they fall.

    Return it, its function, and of each call the inputs and the addresses by name.
    """
    family, point = family_of(kernel), checked(kernel, arguments)
    k = new_kernel(chip, kernel)
    calls = []
    with team_of(k, chip, point.cores or chip.cores) as team:
        functions = Functions(k, team)
        function = functions.of(family, point)
        tensors = family.tensors(point)
        for seed in range(times):
            values = family.random(point.model_copy(update={"seed": seed}))
            at = {}
            for name in function.operands:
                size = function.workspaces.get(name) or tensors[name].size
                at[name] = k.buffer(k.l2, name, size + apart, 256) + apart
                if name in values:
                    k.put(at[name], values[name].tobytes())
            assert functions.of(family, point) is function
            function.call(at)
            calls.append((values, at))
    return k.build(), function, calls


@pytest.mark.parametrize("case", SHARED)
def test_a_function_gives_what_a_program_of_its_own_gives(case):
    kernel, arguments, chip = SHARED[case]
    program, function, calls = called(kernel, arguments, chip, times=2)
    result = run_program(program, chip)
    for values, at in calls:
        alone, report = launch(kernel, arguments, chip, values)
        assert report.is_correct
        for name, expected in alone.items():
            found = np.frombuffer(result.read(at[name], expected.nbytes), expected.dtype)
            np.testing.assert_array_equal(found, expected.reshape(-1), name)
    assert bool(function.workspaces) is (case in ("buffers between phases", "phases"))
    tables = {symbol.name for symbol in program.symbols} & {"schedule", "stops", "lines"}
    assert tables - {"lines"} or case == "all in L1"
    assert bool(function.tables) is bool(tables)
    by_itself = ("each core by itself", "lines of cores that are summed up")
    assert ("stops" in tables) is (case in by_itself)


def test_code_and_tables_are_there_once():
    sizes = {}
    for times in (1, 5):
        program, function, _ = called(*SHARED["copies ahead"], times=times)
        text = program.segments[0]
        sizes[times] = text.size
        assert function.code < text.size
        tables = [symbol for symbol in program.symbols if symbol.name in ("schedule", "lines")]
        assert sum(symbol.size for symbol in tables) == function.tables > 0
    assert sizes[5] - sizes[1] <= 4 * 12  # of a call: the record's address, and the jump


def test_records_tell_what_calls_were_given():
    k = new_kernel(TIGHT)
    names = [("relu_fw_f32", {"shape": (3000,)}), SHARED["buffers between phases"][:2]]
    with team_of(k, TIGHT, 8) as team:
        functions = Functions(k, team)
        each = [functions.of(family_of(name), checked(name, how)) for name, how in names]
        given = []
        for function in (*each, each[0]):
            places = range(0x1C1FFF00 - 8 * len(given), 0x1C1FFFFC, 4)
            given.append(dict(zip(function.operands, places, strict=False)))
            function.call(given[-1])
        assert functions.code == sum(function.code for function in each)
        assert functions.tables == sum(function.tables for function in each)
    program = k.build()
    assert len(functions.records) == 3
    for record, at in zip(functions.records, given, strict=True):
        words = np.frombuffer(program.bytes_at(record.address, 4 * len(at)), "<u4").tolist()
        assert dict(zip(record.operands, decoded(words), strict=True)) == at


@pytest.mark.parametrize("is_tiled", [True, False])
def test_maps_may_overwrite_what_they_read(is_tiled):
    """With two buffers of each tensor too: a part is read before its place is written."""
    size = 3000 if is_tiled else 300
    values = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    k = new_kernel(TIGHT)
    at = k.data("x", values.tobytes())
    with team_of(k, TIGHT, 8) as team:
        functions = Functions(k, team)
        for kernel, how in (
            ("relu_fw_f32", {"shape": (size,)}),
            ("multiply_f32", {"a": (size,), "b": (size,)}),
        ):
            function = functions.of(family_of(kernel), checked(kernel, how))
            function.call(dict.fromkeys(function.operands, at))
    found = np.frombuffer(run_program(k.build(), TIGHT).read(at, 4 * size), np.float32)
    np.testing.assert_array_equal(found, np.maximum(values, 0) ** 2)


def test_functions_of_the_same_name_differ_by_their_arguments():
    family = family_of("sgd_f32")
    k = new_kernel(PULP)
    with team_of(k, PULP, 8) as team:
        functions = Functions(k, team)
        points = [checked("sgd_f32", {"shape": (8,), "lr": lr}) for lr in (0.1, 0.2, 0.1)]
        first, second, third = (functions.of(family, point) for point in points)
    assert first is third
    assert first is not second
    assert first.label.name != second.label.name
    k.build()


def test_what_a_function_cannot_be_called_with_is_refused():
    family = family_of("relu_fw_f32")
    k = new_kernel(PULP)
    with team_of(k, PULP, 8) as team:
        function = Functions(k, team).of(family, checked("relu_fw_f32", {"shape": (8,)}))
    with pytest.raises(KernelError, match=r"^call of relu_fw_f32_0: its y is nowhere$"):
        function.call({"x": 0x1C040000})
    odd = "call of relu_fw_f32_0: its x is at 0x1c040002, no multiple of 4"
    with pytest.raises(KernelError, match=f"^{re.escape(odd)}$"):
        function.call({"x": 0x1C040002, "y": 0x1C040000})


def test_an_operand_is_told_as_far_as_a_word_goes():
    last = Operand(0x10000000 + 4 * MOST, LONGEST - 4)
    assert 0 < last.word < 1 << 32
    assert last.word - last.mark == LONGEST - 4
    message = (
        f"a function reads an operand {LONGEST} bytes after its start, where less than {LONGEST} "
        f"can be told; cut the operand in two"
    )
    with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
        _ = (last + 4).word


HASH = """
from tests.trainlib.tiling.test_functions import SHARED, called, digest
print(digest(called(*SHARED["phases"], times=2)[0]))
"""


def digest(program):
    return hashlib.sha256(program.to_elf()).hexdigest()


def test_the_same_program_is_the_same_file_in_another_process():
    here = [digest(called(*SHARED["phases"], times=2)[0]) for _ in range(2)]
    run = [sys.executable, "-c", HASH]
    there = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    assert here == [there.stdout.strip()] * 2


NET = (
    ("conv2d_fw_f32", {"inputs": 8, "outputs": 8, **IMAGES}, 3),
    ("batchnorm_fw_f32", {"c": 8, "hw": 120}, 3),
    ("relu_fw_f32", {"shape": (960,)}, 3),
    ("conv2d_wg_f32", {"inputs": 8, "outputs": 8, **IMAGES}, 3),
    ("conv2d_ig_f32", {"inputs": 8, "outputs": 8, **IMAGES}, 2),
    ("batchnorm_bw_f32", {"c": 8, "hw": 120}, 3),
    ("relu_bw_f32", {"shape": (960,)}, 3),
    ("sgd_f32", {"shape": (576,), "lr": 0.1}, 3),
    ("sgd_f32", {"shape": (8,), "lr": 0.1}, 6),
)
"""Kernels and arguments of three equal layers' step of training, and how often they are called."""


def test_a_networks_code_and_tables_grow_by_its_unique_calls():
    def sizes(is_shared):
        k = new_kernel(TIGHT, code=1 << 17)
        each = []
        with team_of(k, TIGHT, 8) as team:
            functions = Functions(k, team)
            for kernel, arguments, times in NET:
                for _ in range(times):
                    if not is_shared:
                        functions.each.clear()
                    each.append(functions.of(family_of(kernel), checked(kernel, arguments)))
                    each[-1].call(dict.fromkeys(each[-1].operands, k.l2.base))
        emitted = functions.each.values() if is_shared else each
        return k.build().segments[0].size, sum(f.tables for f in emitted), len(each)

    (code, tables, calls), (code_alone, tables_alone, _) = sizes(True), sizes(False)
    assert calls == 29
    assert code <= 11_068 < 0.4 * code_alone
    assert tables <= 4_520 < 0.39 * tables_alone

"""Primitives on the chip: run between guards, compared with their references, those with torch."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from firmware.builder import Kernel
from firmware.runtime import new_kernel, team_of
from soc.chip.spec import load_chip
from soc.run import run_program
from trainlib.launch import launch
from trainlib.primitive.tensor import INT32
from trainlib.reference.activations import overflowing
from trainlib.registry import KERNELS

WARM = load_chip("pulp", {"icache.kind": "ideal"})  # as if every instruction were cached
GUARD = 64  # bytes
LONGEST = 2_000_000  # cycles
SPECIAL = np.array(
    [
        np.nan,
        -np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1e-45,
        -1e-40,
        3e38,
        -3e38,
        88.8,
        -87.5,
        1.0,
        -1.0,
    ],
    np.float32,
)
NOT_FINITE = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 2.5, -2.5], np.float32)

Inputs = Mapping[str, np.ndarray]


def check(kernel: str, arguments: Mapping[str, Any], inputs: Inputs | None = None) -> Inputs:
    """Run a primitive; every output is as its reference says, and nothing else is written."""
    outputs, report = launch(kernel, arguments, WARM, inputs, guard=GUARD, max_cycles=LONGEST)
    assert (report.result.exit.reason, report.result.exit.code) == ("exit", 0)
    assert report.result.warnings == ()
    for name, (exact, bound) in report.expected.items():
        error = report.errors[name]
        worst = np.unravel_index(np.argmax(error - bound), error.shape)
        assert report.is_correct, f"{name}{list(worst)}: {outputs[name][worst]}, not {exact[worst]}"
    assert report.stray_writes == []
    return outputs


def check_in_registers(kernel: str, arguments: Mapping[str, Any]) -> None:
    """The same with addresses in registers, which are what they were at the end."""
    family = KERNELS[kernel]
    point = family.arguments.model_validate(dict(arguments))
    tensors, values = family.tensors(point), family.random(point)
    k = new_kernel(WARM, kernel, GUARD)
    places = {
        name: k.buffer(k.l1, f"{name}_in_L1", tensor.l1_size) for name, tensor in tensors.items()
    }
    for name, array in values.items():
        rows = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, tensors[name].pad)])
        k.put(places[name], rows.tobytes())
    with team_of(k, WARM, point.cores or WARM.cores) as team, k.scope():
        registers = dict(zip(places, k.x(len(places)), strict=True))
        for name, register in registers.items():
            k.li(register, places[name])
        family.emit_l1(k, team, point, registers)
        _trap_if_changed(k, registers, places)
        team.barrier()
    k.poison()
    result = run_program(k.build(), WARM, max_cycles=LONGEST)
    assert (result.exit.reason, result.exit.code) == ("exit", 0), result.exit
    for name, (exact, bound) in family.reference(point, values).items():
        tensor = tensors[name]
        got = np.frombuffer(result.read(places[name], tensor.l1_size), tensor.dtype)
        rows = got.reshape(*tensor.shape[:-1], -1)[..., : tensor.shape[-1]]
        got = rows.astype(np.float64)
        with np.errstate(invalid="ignore"):
            is_close = np.abs(got - exact) <= bound
        assert (is_close | (got == exact) | np.isnan(got) & np.isnan(exact)).all()


def _trap_if_changed(k: Kernel, registers: Mapping[str, Any], places: Mapping[str, int]) -> None:
    for name, register in registers.items():
        with k.scope():
            t, fine = k.x(), k.label()
            k.li(t, places[name])
            k.beq(t, register, fine)
            k.ebreak()
            k.place(fine)


def check_with_torch(
    kernel: str,
    arguments: Mapping[str, Any],
    golden: Callable[..., Any],
    inputs: Inputs | None = None,
    *,
    is_part: bool = False,
) -> None:
    """The reference is what golden(torch, **float64 inputs) gives: a tensor, or several in order.

    is_part    golden gives the first outputs only
    """
    torch = pytest.importorskip("torch")
    family = KERNELS[kernel]
    point = family.arguments.model_validate(dict(arguments))
    values = family.random(point) | dict(inputs or {})
    tensors = {
        name: torch.tensor(array if array.dtype == INT32 else array.astype(np.float64))
        for name, array in values.items()
    }
    results = golden(torch, **tensors)
    results = results if isinstance(results, (tuple, list)) else (results,)
    expected = family.reference(point, values)
    for result, (name, (exact, _)) in zip(results, expected.items(), strict=not is_part):
        wanted = result.detach().numpy()
        if wanted.dtype.kind == "f":
            wanted = overflowing(wanted)
        np.testing.assert_allclose(exact, wanted, rtol=1e-9, atol=1e-11, err_msg=name)
        assert np.shape(exact) == wanted.shape

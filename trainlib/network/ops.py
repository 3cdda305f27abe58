"""Training of a network as one program: layers forward, the loss, layers backward, new weights.

Where all tensors fit L1, they stay there; else they lie in L2, and every primitive fetches what it
needs, by tiles if need be. A region for each layer and step measures it. At the end core 0 prints
the losses.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.elementwise.fill import fill_f32
from trainlib.network.error_bounds import expected
from trainlib.network.layers import Call
from trainlib.network.losses import emit_print
from trainlib.network.training_graph import Plan, TrainingArguments, drawn, plan_of, point_of
from trainlib.primitive.operator import Family
from trainlib.primitive.tensor import FLOAT32, WORD, Addresses, Tensor, Tensors
from trainlib.tiling.functions import Function, Functions
from trainlib.tiling.resident import Resident
from trainlib.tiling.warm_up import repeated

Place = TypeVar("Place")


def tensors(a: TrainingArguments) -> Tensors:
    """Those of the plan, and a workspace for the buffers of primitives."""
    _check(a)
    plan = plan_of(a, a.cores or 1)
    words = max(sum(map(_aligned, _resident(call, a).scratch.values())) for call in plan.calls)
    return plan.tensors | {"workspace": Tensor((max(words // WORD, 1),), "scratch")}


def _check(a: TrainingArguments) -> None:
    if a.warm:
        raise KernelError("train_f32: it has no warm; leave it out: take more steps")
    if a.momentum and a.optimizer != "sgd":
        raise KernelError(f"train_f32: {a.optimizer} has no momentum; leave it out, or take sgd")
    if a.nesterov and not a.momentum:
        raise KernelError("train_f32: nesterov without a momentum; it looks ahead along that")


def _aligned(size: int) -> int:
    return -(-size // 16) * 16


def _resident(call: Call, a: TrainingArguments) -> Resident:
    family, point = point_of(call, a.cores)
    return Resident.of(family, point, family.tensors(point), keeps_all=True)


def _operands(call: Call, at: Mapping[str, Place]) -> dict[str, Place]:
    return {name: at[wanted] for name, wanted in call.operands.items()}


def emit_in_l1(k: Kernel, team: Team, a: TrainingArguments, l1: Addresses) -> None:
    """Emit all steps of training, tensors in L1."""
    plan = plan_of(a, team.cores)
    for name, value in plan.states.items():
        fill_f32(k, team, l1[name], plan.tensors[name].elements, value=value)
    for call in _steps(k, team, a, plan, l1):
        resident = _resident(call, a)
        place, own = l1["workspace"], {}
        assert isinstance(place, int)
        for name, size in resident.scratch.items():
            own[name] = place
            place += _aligned(size)
        with k.region(call.region):
            resident.compute(k, team, {**own, **_operands(call, l1)})
            team.barrier()


def emit_in_l2(k: Kernel, team: Team, a: TrainingArguments, l2: Mapping[str, int]) -> None:
    """Emit all steps of training, tensors in L2."""
    plan = plan_of(a, team.cores)
    between = {
        name: k.buffer(k.l2, name, tensor.size)
        for name, tensor in plan.tensors.items()
        if tensor.role == "scratch"
    }
    for name, value in plan.states.items():
        k.put(l2[name], np.full(plan.tensors[name].shape, value, FLOAT32).tobytes())
    at = {**l2, **between}
    functions = Functions(k, team)
    each = [functions.of(*point_of(call, a.cores)) for call in plan.calls]
    workspaces = _workspaces(k, each)
    for call, function in zip(_steps(k, team, a, plan, at), each, strict=True):
        with k.region(call.region):
            function.call({**workspaces, **_operands(call, at)})


def _workspaces(k: Kernel, functions: Iterable[Function]) -> dict[str, int]:
    """Addresses in L2 by name: of each, the most that a function takes."""
    sizes: dict[str, int] = {}
    for function in functions:
        for name, size in function.workspaces.items():
            sizes[name] = max(size, sizes.get(name, 0))
    return {name: k.buffer(k.l2, name, size) for name, size in sizes.items()}


def _steps(
    k: Kernel, team: Team, a: TrainingArguments, plan: Plan, at: Addresses
) -> Iterator[Call]:
    """The calls of a step, which is repeated; at its end the loss is kept."""
    with repeated(k, a.steps) as load_left:
        yield from plan.calls
        with team.only(0), k.scope():
            place, value = k.x(2)
            load_left(place)
            k.li(value, a.steps)
            k.sub(place, value, place)
            k.slli(place, place, 2)
            k.set(value, at["loss"])
            k.add(place, place, value)
            k.set(value, at["loss_now"])
            k.lw(value, 0, value)
            k.sw(value, 0, place)


def emit_losses(k: Kernel, team: Team, a: TrainingArguments, l2: Mapping[str, int]) -> None:
    """Print the losses of all steps: "step 1: loss 1.23457e-01"."""
    emit_print(k, team, l2["loss"], a.steps, "step")


def macs(a: TrainingArguments) -> int:
    """Multiply-adds of all steps."""
    points = (point_of(call, a.cores) for call in plan_of(a, a.cores or 1).calls)
    return a.steps * sum(family.macs(point) for family, point in points)


FAMILIES = (
    Family(
        "train_f32",
        TrainingArguments,
        tensors,
        expected,
        macs,
        emit_in_l1,
        draw=drawn,
        emit_l2=emit_in_l2,
        emit_end=emit_losses,
    ),
)

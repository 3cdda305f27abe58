"""Training of a network as one program: a step of trainlib.deploy, repeated with the same batch.

Where all tensors fit L1, they stay there; else they lie in L2, and every primitive fetches what it
needs, by tiles if need be. A region for each layer and step measures it. At the end core 0 prints
the losses.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from firmware.builder import Kernel, KernelError
from firmware.runtime import Team
from trainlib.calls.call import point_of
from trainlib.deploy.handover import emit_losses
from trainlib.deploy.memory import ALIGNED, Memory
from trainlib.deploy.tiles import Tiles
from trainlib.elementwise.fill import fill_f32
from trainlib.network.error_bounds import expected
from trainlib.network.step import LOSS, Step, unfused
from trainlib.network.training import TrainingArguments, drawn
from trainlib.primitive.operator import Family
from trainlib.primitive.tensor import WORD, Addresses, Tensor, Tensors
from trainlib.tiling.functions import Functions
from trainlib.tiling.resident import Resident
from trainlib.tiling.warm_up import repeated

WORKSPACE = "workspace"
Emit = Callable[[dict[str, int]], None]
"""Emit a call's code, given addresses of its operands and workspaces."""


def tensors(a: TrainingArguments) -> Tensors:
    """Operands, the losses of all steps, and room in L1 for what lies between them."""
    if a.warm:
        raise KernelError("train_f32: it has no warm; leave it out: take more steps")
    planned = _planned_in_l1(a, a.cores or 1)
    words = max(planned.memory.peak // WORD, 1)
    losses = Tensor((a.steps,), "out")
    return {**planned.step.tensors, LOSS: losses, WORKSPACE: Tensor((words,), "scratch")}


class _Planned(NamedTuple):
    """A step with all in L1: its calls, and places in the workspace, from 0."""

    step: Step
    residents: Sequence[Resident]
    memory: Memory


@lru_cache(maxsize=4)
def _planned_in_l1(a: TrainingArguments, cores: int) -> _Planned:
    """Gradients may change weights at once: with all in L1, each is made in one pass."""
    step = Step.of(a, cores, lambda *_: True)
    points = [point_of(call, a.cores) for call in step.calls]
    residents = [Resident.of(f, point, f.tensors(point), keeps_all=True) for f, point in points]
    spaces = [resident.scratch for resident in residents]
    return _Planned(step, residents, step.memory(spaces, 0, with_constants=True))


def emit_in_l1(k: Kernel, team: Team, a: TrainingArguments, l1: Addresses) -> None:
    """Emit all steps of training, tensors in L1."""
    step, residents, memory = _planned_in_l1(a, team.cores)
    start = l1[WORKSPACE]
    assert isinstance(start, int)
    at = {**l1, **{name: start + block.address for name, block in memory.blocks.items()}}
    for name, array in step.arrays.items():
        fill_f32(k, team, at[name], array.size, value=float(array.flat[0]))
    team.barrier()

    def emit(resident: Resident) -> Emit:
        def code(operands: dict[str, int]) -> None:
            resident.compute(k, team, operands)
            team.barrier()

        return code

    each = [(emit(resident), resident.scratch) for resident in residents]
    _emit_steps(k, team, step, each, at)


def emit_in_l2(k: Kernel, team: Team, a: TrainingArguments, l2: Mapping[str, int]) -> None:
    """Emit all steps of training, tensors in L2."""
    functions = Functions(k, team)
    tiles = Tiles(k, team.cores)
    step = Step.of(a, team.cores, tiles.fits)
    calls = step.calls if a.kernels == "naive" else map(tiles.chosen, step.calls)
    called = [functions.of(*point_of(call, team.cores)) for call in calls]
    memory = step.memory([function.workspaces for function in called], 0)
    start = k.buffer(k.l2, "values", max(memory.peak, WORD), ALIGNED)
    at = {**l2, **{name: start + block.address for name, block in memory.blocks.items()}}
    for name, array in step.arrays.items():
        if name in l2:
            k.put(l2[name], array.tobytes())
        else:
            at[name] = k.data(name, array.tobytes())
    _emit_steps(k, team, step, [(f.call, f.workspaces) for f in called], at)


def _emit_steps(
    k: Kernel,
    team: Team,
    step: Step,
    each: Sequence[tuple[Emit, Mapping[str, int]]],
    at: Addresses,
) -> None:
    """The calls of a step, which is repeated; at its end the loss is kept.

    each    emits a call's code; bytes of its workspaces by name
    at      addresses of roots and workspaces
    """
    with repeated(k, step.a.steps) as load_left:
        for number, (call, (emit, spaces)) in enumerate(zip(step.calls, each, strict=True)):
            with k.region(call.region):
                emit(step.addresses(call, number, spaces, at))
        with team.only(0), k.scope():
            place, value = k.x(2)
            load_left(place)
            k.li(value, step.a.steps)
            k.sub(place, value, place)
            k.slli(place, place, 2)
            k.set(value, at[LOSS])
            k.add(place, place, value)
            k.set(value, step.address(step.loss, at))
            k.lw(value, 0, value)
            k.sw(value, 0, place)


def emit_end(k: Kernel, team: Team, a: TrainingArguments, l2: Mapping[str, int]) -> None:
    """Print the losses of all steps: "step 1: loss 1.23457e-01"."""
    emit_losses(k, team, l2[LOSS], a.steps, "step")


def macs(a: TrainingArguments) -> int:
    """Multiply-adds of all steps."""
    points = (point_of(call, a.cores) for call in unfused(a, a.cores or 1).calls)
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
        emit_end=emit_end,
    ),
)

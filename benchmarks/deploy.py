"""Training steps of networks, deployed from PyTorch: cycles, memory, and the time to get there.

Cycles are those of a third batch of one example, its update included. Published: users of PULP's
and Deeploy's training deployers, on GVSoC, without the optimiser; orientation only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import process_time

from benchmarks.figure import Figure
from soc.chip.spec import load_chip
from trainlib.deploy import SGD, Adam, Deployed, deploy
from trainlib.deploy.program_store import ProgramStore
from trainlib.primitive.element import HALVES

BATCHES = 3
STEPS = 100
HALF_STEPS, EXAMPLES = 200, 8
MB = 1 << 20

LARGE = 16
"""MB of L2 into which every step fits without copies to the HyperRAM."""

OPTIMIZERS = {"SGD": SGD(lr=0.01), "Adam": Adam(lr=0.001)}


@dataclass(frozen=True)
class Target:
    """What a network should not exceed.

    l2           MB of L2
    swaps        optimizers of which a step in 2 MB of L2, the HyperRAM beside it, is held against
                 one in 16 MB
    cycles       of a step
    seconds      of processor time to build its program; training: 100 steps
    values       bytes, with a second buffer for inputs; code, tables: bytes
    published    cycles
    halves       cycles in bfloat16 and in FP16, FP32 in weights
    """

    l2: int = 2
    swaps: Sequence[str] = ()
    cycles: int | None = None
    seconds: float | None = None
    training: float | None = None
    values: int | None = None
    code: int | None = None
    tables: int | None = None
    published: int | None = None
    halves: int | None = None


TARGETS: Mapping[str, Target] = {
    "AE-tiny": Target(cycles=110_000, training=20, published=480_000),
    "Deep AE": Target(cycles=650_000),
    "DSCNN-XS": Target(cycles=180_000, published=800_000),
    "DS-CNN": Target(cycles=2_000_000, training=45, halves=1_316_000),
    "ResNet8": Target(
        cycles=7_200_000,
        seconds=3,
        values=1_115_000,
        code=90_000,
        tables=80_000,
        published=47_800_000,
        halves=4_232_000,
    ),
    "MobileNetV1": Target(
        l2=4, swaps=("SGD", "Adam"), seconds=8, code=120_000, tables=202_000, published=53_100_000
    ),
    "CCT-2": Target(l2=4, swaps=("SGD",)),
    "LSTM": Target(),
    "GRU": Target(),
}


def networks(is_long: bool = False) -> Iterator[Figure]:
    """All networks that have targets."""
    for name, target in TARGETS.items():
        yield from network(name, target, is_long)


def network(name: str, target: Target, is_long: bool) -> Iterator[Figure]:
    """Cycles, seconds and bytes of a network; is_long: of 100 steps, too."""
    from benchmarks.models import MODELS

    model = MODELS[name]
    batches = model.batches(BATCHES)
    chip = load_chip("pulp", {"l2": {"size": target.l2 * MB}})
    how = {"loss": model.loss, "batch": batches[0], "optimizer": SGD(lr=0.01), "chip": chip}
    with TemporaryDirectory() as folder:
        seconds = []
        for _ in range(2):
            deployed = deploy(model.module(), **how)
            deployed.store = ProgramStore(Path(folder))
            started = process_time()
            deployed.built()
            seconds.append(process_time() - started)
    cycles = deployed.train(batches).report.batches[-1].cycles
    yield Figure(
        *(f"{name}: a step, {target.l2} MB of L2", cycles, "cycles"),
        most=target.cycles,
        published=target.published,
    )
    for optimizer in target.swaps:
        yield from _with_swaps(name, optimizer)
    if target.halves:
        for half in HALVES:
            yield from _in_halves(name, target, deployed, half.name, is_long)
    yield Figure(f"{name}: values and a second input", _values(deployed), "B", most=target.values)
    for what in ("code", "tables"):
        size = getattr(deployed.memory, what)
        yield Figure(f"{name}: {what}", size, "B", most=getattr(target, what))
    yield Figure(f"{name}: to build it", seconds[0], "s", most=target.seconds)
    yield Figure(f"{name}: to build it again", seconds[1], "s")
    if is_long and target.training:
        started = process_time()
        deployed.train(model.batches(STEPS))
        yield Figure(f"{name}: {STEPS} steps", process_time() - started, "s", most=target.training)


def _with_swaps(name: str, optimizer: str) -> Iterator[Figure]:
    """Cycles where values lie in the HyperRAM meanwhile, over those where all fit L2."""
    from benchmarks.models import MODELS

    model = MODELS[name]
    batches = model.batches(BATCHES)
    how = {"loss": model.loss, "batch": batches[0], "optimizer": OPTIMIZERS[optimizer]}
    small, large = (
        deploy(model.module(), **how, chip=load_chip("pulp", {"l2": {"size": size * MB}}))
        for size in (2, LARGE)
    )
    cycles, least = (each.train(batches).report.batches[-1].cycles for each in (small, large))
    yield Figure(
        *(f"{name}: a step by {optimizer}, 2 MB over {LARGE} MB", cycles, "cycles"),
        limit=least,
        ratio=cycles / least,
        most=1.25,
    )
    copied = sum(copy.size for copy in small.built().copies)
    yield Figure(f"{name}: copied by HyperBus, {optimizer}", copied, "B")


def _in_halves(
    name: str, target: Target, single: Deployed, dtype: str, is_long: bool
) -> Iterator[Figure]:
    """A step in halves; is_long: how far its loss is from FP32's after 200 steps."""
    from benchmarks.models import MODELS

    model = MODELS[name]
    batches = model.batches(EXAMPLES)
    how = {"loss": model.loss, "batch": batches[0], "optimizer": SGD(lr=0.01)}
    halves = deploy(model.module(), **how, chip=single.chip, dtype=dtype)
    cycles = halves.train(batches[:BATCHES]).report.batches[-1].cycles
    yield Figure(f"{name}: a step, {dtype}", cycles, "cycles", most=target.halves)
    if is_long:
        many = batches * (HALF_STEPS // EXAMPLES)
        last = [fmean(each.train(many).losses[-EXAMPLES:]) for each in (single, halves)]
        for kind, loss in zip(("FP32", dtype), last, strict=True):
            yield Figure(f"{name}: loss after {HALF_STEPS} steps, {kind}", loss, "")
        most = max(0.02 * last[0], 0.01)
        yield Figure(f"{name}: loss in {dtype} less FP32's", abs(last[1] - last[0]), "", most=most)


def _values(deployed: Deployed) -> int:
    """Bytes of values, and of the inputs once more: for those that come meanwhile."""
    inputs = deployed.schedule.graph.of_role("input")
    return deployed.memory.peak + sum(value.size for value in inputs)

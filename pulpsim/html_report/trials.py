"""Changes that would make a loss less, simulated: of a kernel's arguments, and of the chip.

A trace of a kernel tells its arguments and its chip. For each of the largest losses, what the
kernel and the chip have an option for is changed, and the whole run simulated anew; its inputs are
those that the kernel draws by itself.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from pydantic import ValidationError

from firmware.builder import KernelError
from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.losses import LARGEST, Loss, Trial, losses
from soc.chip.spec import SocSpec
from soc.config.toml import ConfigError
from soc.run import run_program
from trainlib.launch import checked, program
from trainlib.primitive.arguments import CommonArguments, TiledArguments
from trainlib.registry import family_of

MOST_TIMES = 4  # as many cycles as the recorded run: then a changed one ends
UNROLLED = 4  # copies of a body at most


@dataclass(frozen=True)
class Change:
    """A change: arguments of the kernel, fields of the chip's tables by table."""

    words: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def trials(
    evidence: Evidence, file: str, progress: Callable[[str], AbstractContextManager]
) -> list[Trial]:
    """Simulate changes for the largest losses of a recorded run of a kernel.

    raises    ConfigError if the file is no trace of a whole run of a kernel
    """
    kernel, arguments, chip = _recorded(evidence, file)
    found, cores = [], max(1, len(evidence.cores))
    for loss in losses(evidence)[:LARGEST]:
        for change in changes(loss, kernel, checked(kernel, arguments), chip):
            with progress(f"simulating {change.words}"):
                cycles = _cycles(kernel, arguments, chip, change, evidence.figures.cycles)
            predicted = evidence.figures.cycles - ceil(loss.cycles / cores)
            found.append(Trial(loss.name, change.words, predicted, cycles))
    return found


def _recorded(evidence: Evidence, file: str) -> tuple[str, dict[str, Any], SocSpec]:
    """The kernel, its arguments and its chip.

    raises    ConfigError if they are not known
    """
    recording = evidence.figures.recording
    header = recording.trace.header if recording else {}
    if header.get("part"):
        raise ConfigError([f"--try: {file} with --cycle is a part of a run; leave one of them out"])
    try:
        kernel, arguments = str(header["kernel"]), dict(header["arguments"])
        chip = SocSpec.model_validate(header["chip"])
        family_of(kernel)
        checked(kernel, arguments)
    except (KeyError, TypeError, ValueError, ValidationError, ConfigError):
        raise ConfigError(
            [
                f"--try: {file} is no trace of a kernel of this version; record one with "
                "`pulpsim run CONF.toml --trace FILE`, whose CONF.toml has program.kernel"
            ]
        ) from None
    return kernel, arguments, chip


def changes(loss: Loss, kernel: str, point: CommonArguments, chip: SocSpec) -> Iterator[Change]:
    """What the kernel and the chip have an option for that may make a loss less."""
    if loss.name == "Waits for the DMA":
        if isinstance(point, TiledArguments):
            if family_of(kernel).tiling and point.tile is None:
                yield Change("tile = {}, buffers = 2", {"tile": {}, "buffers": 2})
            elif point.buffers == 1 and point.tile is not None:
                yield Change("buffers = 2", {"buffers": 2})
        yield _larger("l1", "size", chip.l1.size, 4)
    elif loss.name == "Conflicts at L1's banks":
        yield _larger("l1", "banks", chip.l1.banks, 2)
    elif loss.name == "Instruction-cache misses":
        if getattr(point, "unroll", 1) > 1:
            yield Change("unroll = 1", {"unroll": 1})
        yield _larger("icache", "private_size", chip.icache.private_size, 2)
    elif loss.name in ("Loads used at once", "Waits for the FPU"):
        unroll = getattr(point, "unroll", UNROLLED)
        if unroll < UNROLLED:
            yield Change(f"unroll = {2 * unroll}", {"unroll": 2 * unroll})


def _larger(table: str, name: str, value: int, times: int) -> Change:
    new = times * value
    return Change(f"chip: {table}.{name} = {new:,}", fields={table: {name: new}})


def _cycles(
    kernel: str, arguments: Mapping[str, Any], chip: SocSpec, change: Change, before: int
) -> int | None:
    table = chip.model_dump(mode="json")
    for name, some in change.fields.items():
        table[name] |= some
    try:
        spec = SocSpec.model_validate(table)
        built = program(kernel, {**arguments, **change.arguments}, spec)
    except (ValidationError, ConfigError, KernelError):
        return None
    result = run_program(built.program, spec, max_cycles=MOST_TIMES * before)
    is_right = result.exit.reason == "exit" and built.report(result).is_correct
    return result.cycles if is_right else None

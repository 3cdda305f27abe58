"""Code between batches: where the next one comes from, losses, the seeds of dropout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from firmware.builder import Kernel, Register
from firmware.console import Console
from firmware.platform import address_of
from firmware.runtime import Team, exit_
from trainlib.deploy.schedule import Schedule
from trainlib.primitive.tensor import WORD, Arrays
from trainlib.tiling.warm_up import repeated

NEXT = 0x4E58  # exit code: the program waits for the next batch


def emit_stop(k: Kernel, team: Team) -> None:
    """Stop until the host has written the next batch, see soc.exchange."""
    with team.only(0), k.scope():
        exit_(k, NEXT)
        status = k.x()
        k.li(status, address_of("soc_control", "CORE_STATUS"))
        k.lw(status, 0, status)  # answered after the stop
    team.barrier()


def emit_losses(k: Kernel, team: Team, losses: int, count: int, what: str) -> None:
    """Print words in L2, with what they are of and their number: "step 1: loss 1.23e-01"."""
    console = Console(k)
    with team.only(0), k.scope():
        number, place, value = k.saved(3)
        k.li(place, losses)
        k.li(number, 1)
        with repeated(k, count):
            console.text(f"{what} ")
            console.number(number)
            console.text(": loss ")
            k.lw(value, 0, place)
            console.float(value)
            console.text("\n")
            k.addi(place, place, WORD)
            k.addi(number, number, 1)


def emit_seeds(k: Kernel, team: Team, seeds: Sequence[int]) -> None:
    """Advance the words at these addresses: the next batch draws other numbers."""
    with team.only(0), k.scope():
        place, value = k.x(2)
        for seed in seeds:
            k.li(place, seed)
            k.lw(value, 0, place)
            k.addi(value, value, 1)
            k.sw(value, 0, place)


@dataclass(frozen=True)
class Pool:
    """Batches in L2, taken one after the other, the first after the last.

    arrays     addresses of all batches' arrays together, by input
    losses     address of a word for each batch that is computed, of `count`
    counters   address of two words: the next batch, and batches that are done
    size       batches in the pool
    """

    arrays: Mapping[str, int]
    losses: int
    counters: int
    size: int
    count: int

    @classmethod
    def of(cls, k: Kernel, schedule: Schedule, batches: Sequence[Arrays], steps: int) -> "Pool":
        """Put batches into L2.

        raises    KernelError if they do not fit
        """
        arrays = {
            name: k.data(f"batches of {name}", b"".join(_bytes(b[name]) for b in batches))
            for name in schedule.inputs
        }
        count = steps * schedule.batches
        losses = k.buffer(k.l2, "losses", WORD * count)
        return cls(arrays, losses, k.words("batch", [0, 0]), len(batches), count)

    def emit_copy(
        self, k: Kernel, team: Team, schedule: Schedule, addresses: Mapping[str, int]
    ) -> None:
        """Copy the next batch to where the step reads it, by all cores."""
        for name, start in self.arrays.items():
            value = schedule.graph.values[name]
            with k.scope():
                source, target, step = k.x(3)
                k.li(source, self.counters)
                k.lw(source, 0, source)
                k.li(step, value.size)
                k.mul(source, source, step)
                k.li(step, start)
                k.add(source, source, step)
                k.li(target, addresses[name])
                _emit_copy_words(k, team, source, target, value.elements)
        team.barrier()
        with team.only(0), k.scope():
            place, number, size = k.x(3)
            k.li(place, self.counters)
            k.lw(number, 0, place)
            k.addi(number, number, 1)
            k.li(size, self.size)
            k.remu(number, number, size)
            k.sw(number, 0, place)

    def emit_note(self, k: Kernel, team: Team, loss: int) -> None:
        """Keep the loss that lies at this address."""
        with team.only(0), k.scope():
            place, value, target = k.x(3)
            k.li(place, self.counters)
            k.lw(value, WORD, place)
            k.slli(target, value, 2)
            k.addi(value, value, 1)
            k.sw(value, WORD, place)
            k.li(place, self.losses)
            k.add(target, target, place)
            k.li(place, loss)
            k.lw(value, 0, place)
            k.sw(value, 0, target)

    def emit_print(self, k: Kernel, team: Team) -> None:
        """Print all losses: "batch 1: loss 1.23457e-01"."""
        emit_losses(k, team, self.losses, self.count, "batch")


def _bytes(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def _emit_copy_words(k: Kernel, team: Team, source: Register, target: Register, count: int) -> None:
    """Copy words in L2: each core its part."""
    with team.static(count) as index, k.scope():
        at, value = k.x(2)
        k.slli(at, index, 2)
        k.add(at, at, source)
        k.lw(value, 0, at)
        k.sub(at, at, source)
        k.add(at, at, target)
        k.sw(value, 0, at)

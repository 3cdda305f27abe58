"""The images of a batch, one after the other through the same code."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from firmware.builder import Kernel, Register
from trainlib.codegen.saved_values import kept
from trainlib.primitive.tensor import Address

ALL_REGISTERS = 1000  # more than there are: none stays with what only stands around the body


@contextmanager
def images_of(
    k: Kernel,
    count: int,
    addresses: Mapping[str, Address],
    sizes: Mapping[str, int],
    first: int = 0,
) -> Iterator[Mapping[str, Address]]:
    """Repeat the body for images that lie one after another, from the `first` one on."""
    if count == 1 and not first:
        yield addresses
        return
    with k.scope():
        at: dict[str, Register] = dict(zip(addresses, k.x(len(addresses)), strict=True))
        for name, register in at.items():
            k.set(register, addresses[name])
            with k.scope():
                k.add_constant(register, register, first * sizes[name], k.x())
        with rounds_of_images(k, count, at, sizes, list(addresses.values())):
            yield at


@contextmanager
def rounds_of_images(
    k: Kernel,
    count: int | Register,
    at: Mapping[str, Register],
    sizes: Mapping[str, int],
    bases: Sequence[Address],
) -> Iterator[None]:
    """Repeat the body `count` times, at least once, and step the addresses after each.

    bases    what else is live and not needed by the body
    """
    values, more = ([], 1) if isinstance(count, int) else ([count], 0)
    with kept(k, values, more, ALL_REGISTERS, bases) as (left,):
        with k.scope():
            scratch = k.x()
        rounds = left.loop(count, scratch) if isinstance(count, int) else left.rounds(scratch)
        with rounds:
            yield
            if count == 1:
                return
            for name, register in at.items():
                with k.scope():
                    k.add_constant(register, register, sizes[name], k.x())

"""The images of a batch, one after the other through the same code."""

from collections.abc import Iterator, Mapping
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
        with kept(k, [], 1, ALL_REGISTERS, list(addresses.values())) as (left,):
            with k.scope():
                scratch = k.x()
            with left.loop(count, scratch):
                yield at
                for name, register in at.items():
                    with k.scope():
                        k.add_constant(register, register, sizes[name], k.x())

"""The kernel and arguments in an ELF file, by which its run is compared with the reference, too."""

import json
from os import PathLike

import numpy as np

from firmware.builder import KernelError
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.config.toml import ConfigError
from trainlib.launch import KernelProgram, program

MOST_ORIGIN = 1 << 16  # bytes that a program says of its origin


class OriginError(Exception):
    """A program is not what it says that it was built of."""


def rebuilt(file: Program, chip: SocSpec | str | PathLike = "pulp") -> KernelProgram:
    """The primitive's program with its data that an ELF file holds.

    What the file says of its origin is believed if a program that is built of it anew, with the
    file's inputs, has the same bytes: the file may have been written by anyone.

    raises    OriginError with the reason if it has not
    """
    try:
        origin = json.loads(file.origin[:MOST_ORIGIN])
        kernel, arguments = str(origin["kernel"]), dict(origin["arguments"])
    except (ValueError, TypeError, LookupError, RecursionError):
        raise OriginError("what it says of its origin is no kernel and its arguments") from None
    try:
        drawn = program(kernel, arguments, chip).inputs
        inputs = {name: _held(file, name, values) for name, values in drawn.items()}
        again = program(kernel, arguments, chip, inputs)
    except (ConfigError, KernelError, KeyError, ValueError):
        raise OriginError(f"no such program of {kernel[:40]} can be built for this chip") from None
    if (again.program.entry, again.program.segments) != (file.entry, file.segments):
        raise OriginError(f"this version builds another program of {kernel} for this chip")
    return again


def _held(file: Program, name: str, like: np.ndarray) -> np.ndarray:
    """An input that a program has in L2."""
    data = file.bytes_at(file.symbol(name).address, like.nbytes)
    return np.frombuffer(data, like.dtype).reshape(like.shape)

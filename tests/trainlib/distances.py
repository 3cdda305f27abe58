"""How far kernels of halves are from float64, which is what their operands as they are would give.

    python -m tests.trainlib.distances [NAME...]    a row for each result of each kernel

Exact is the reference of the kernel in single precision, in float64, of the same operands: what it
is off by is small beside the rounding of halves. A distance is in units of half a last place of the
largest exact result: one rounding is at most 1; sums in halves, rounded at each term, have more.
What is past the type's largest number is infinite.
"""

import argparse
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from ml_dtypes import finfo

from docs.kernel_equations import EQUATIONS
from soc.chip.spec import load_chip
from trainlib.launch import checked, launch
from trainlib.primitive.element import element_of
from trainlib.primitive.tensor import Arrays
from trainlib.registry import KERNELS

WARM = load_chip("pulp", {"icache.kind": "ideal"})
EVERY = tuple(name for name in KERNELS if element_of(name).is_half)


class Distance(NamedTuple):
    """Of a result of a kernel from float64, in units of half a last place of the largest one.

    largest    of all elements
    mean       root of the mean of squares
    """

    kernel: str
    output: str
    elements: int
    largest: float
    mean: float


def distances(kernel: str) -> Iterator[Distance]:
    """Of all results of a kernel in halves that are floats, at the shape of its manual page."""
    stem, half = kernel.rpartition("_")[0], element_of(kernel)
    arguments: dict[str, Any] = dict(EQUATIONS[kernel][1])
    inputs = KERNELS[kernel].random(checked(kernel, arguments))
    outputs, _ = launch(kernel, arguments, WARM, inputs)
    wide = {n: a.astype(np.float32) if a.dtype == half.dtype else a for n, a in inputs.items()}
    for output, exact in _exact(stem, arguments, wide, outputs).items():
        if outputs[output].dtype not in (half.dtype, np.float32):
            continue
        exact = np.array(exact, np.float64)
        if outputs[output].dtype == half.dtype:
            exact[np.abs(exact) > float(finfo(half.dtype).max)] *= np.inf
        off = _off(outputs[output].astype(np.float64), exact)
        largest = float(np.max(np.abs(exact[np.isfinite(exact)]), initial=0.0))
        unit = float(finfo(half.dtype).eps) / 2 * (largest or 1.0)
        root = float(np.sqrt(np.mean(off**2)))
        yield Distance(kernel, output, off.size, float(off.max()) / unit, root / unit)


def _off(y: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distances; of the same infinity, and of NaNs, 0; of what only one of both is, infinite."""
    is_same = (y == exact) | (np.isnan(y) & np.isnan(exact))
    with np.errstate(invalid="ignore"):
        off = np.abs(y - exact)
    return np.where(is_same, 0.0, np.where(np.isnan(off), np.inf, off))


def _exact(stem: str, arguments: dict[str, Any], inputs: Arrays, names: Iterable[str]) -> Arrays:
    """Results of the kernel in single precision, by name; of a cast, what it reads."""
    if stem == "cast_f32":
        return dict(zip(names, (a.astype(np.float64) for a in inputs.values()), strict=True))
    kernel = f"{stem}_f32"
    found = KERNELS[kernel].reference(checked(kernel, arguments), inputs)
    return {output: exact for output, (exact, _) in found.items()}


def rows(kernels: Iterable[str]) -> Iterator[str]:
    """The table."""
    yield f"{'kernel':<28}{'result':<14}{'elements':>9}{'largest':>10}{'mean':>9}"
    for kernel in kernels:
        for d in distances(kernel):
            yield f"{d.kernel:<28}{d.output:<14}{d.elements:>9,}{d.largest:>10.3f}{d.mean:>9.3f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.trainlib.distances")
    parser.add_argument("names", nargs="*", help="kernels; all of halves by default")
    for row in rows(parser.parse_args().names or EVERY):
        print(row, flush=True)

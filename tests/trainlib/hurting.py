"""Shapes and values that hurt, drawn for every kernel of single precision.

    python -m tests.trainlib.hurting [--draws N] [NAME...]    draw N of each, print what is wrong

Values are ties, numbers below the normal ones, huge ones, NaN, infinities, zeros of both signs, and
numbers whose mean is far larger than their deviation.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from firmware.builder import KernelError
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from trainlib.launch import checked, launch
from trainlib.registry import KERNELS
from trainlib.report import Report

Arguments = dict[str, Any]
Arrays = dict[str, np.ndarray]
WARM = load_chip("pulp", {"icache.kind": "ideal"})
LONGEST = 3_000_000  # cycles
LIMIT = 2.0**-24  # of the largest result
NEARBY = (1 - 2.0**-10, 1 - 2.0**-11)  # times the inputs: there, PyTorch is off by as much
NAMES = tuple(n for n in KERNELS if n.endswith("_f32") and n != "train_f32")
ORDINARY = frozenset(
    "mean rstd running_mean running_var v corrections scale total index seed".split()
    + "gates N C P O QKV Y y".split()
)
"""Inputs that other kernels have made, by rules that random numbers do not keep."""


class Draw(NamedTuple):
    """A kernel, its arguments, its inputs, and how one of these hurts."""

    kernel: str
    arguments: Arguments
    inputs: Arrays
    kind: str
    hurt: str


def ties(g: np.random.Generator, a: np.ndarray) -> None:
    a[...] = g.choice([-1.0, 0.0, 0.5, 1.0], a.shape)


def equal(g: np.random.Generator, a: np.ndarray) -> None:
    a[...] = g.choice([1000.1, -0.3, 0.0])


def offset(g: np.random.Generator, a: np.ndarray) -> None:
    a[...] = 1000 + 0.1 * a


def denormal(g: np.random.Generator, a: np.ndarray) -> None:
    a[...] = a * 2.0**-130


def huge(g: np.random.Generator, a: np.ndarray) -> None:
    a[...] = np.clip(a, -3, 3) * g.choice([1e4, 1e18, 1e38])


def special(*of: float) -> Callable[[np.random.Generator, np.ndarray], None]:
    def change(g: np.random.Generator, a: np.ndarray) -> None:
        places = g.integers(a.size, size=min(2, a.size))
        a.flat[places] = g.choice(of, places.size)

    return change


KINDS: Mapping[str, Callable[[np.random.Generator, np.ndarray], None]] = {
    "ties": ties,
    "equal": equal,
    "offset": offset,
    "denormal": denormal,
    "huge": huge,
    "nan": special(np.nan, -np.nan),
    "inf": special(np.inf, -np.inf),
    "zeros": special(0.0, -0.0),
}


def draws(
    names: Iterable[str], count: int, seed: int = 0, kinds: Iterable[str] = KINDS
) -> Iterator[Draw]:
    """So many of each kernel, by a seed; points that cannot be built are left out."""
    for kernel in names:
        for number in range(count):
            g = np.random.default_rng([seed, number, *kernel.encode()])
            if (draw := _draw(kernel, g, list(kinds))) is not None:
                yield draw


def _draw(kernel: str, g: np.random.Generator, kinds: list[str]) -> Draw | None:
    family = KERNELS[kernel]
    for _ in range(20):
        arguments = shape_of(kernel.removesuffix("_f32"), g) | {"seed": int(g.integers(1 << 20))}
        try:
            point = checked(kernel, arguments)
            inputs = {name: array.copy() for name, array in family.random(point).items()}
        except (ConfigError, KernelError, ValueError):
            continue
        kind = str(g.choice(kinds))
        can = [n for n, a in inputs.items() if a.dtype == np.float32 and n not in ORDINARY]
        if not can:
            return Draw(kernel, arguments, inputs, "", "")
        hurt = str(g.choice(can))
        with np.errstate(all="ignore"):
            KINDS[kind](g, inputs[hurt])
        if kernel == "bce_loss_f32":  # x and t are from 0 to 1
            inputs = {name: np.clip(a, 0, 1) for name, a in inputs.items()}
        return Draw(kernel, arguments, inputs, kind, hurt)
    return None


def shape_of(stem: str, g: np.random.Generator) -> Arguments:
    """Arguments that say a small shape, odd as often as not; they may not fit each other."""

    def size(most: int) -> int:
        return int(g.integers(1, most + 1))

    def one_of(*of: Any) -> Any:
        return of[int(g.integers(len(of)))]

    if "conv2d" in stem and not stem.startswith("pw"):
        a: Arguments = {"inputs": size(5), "height": size(9), "width": size(9), "batch": size(2)}
        a |= {name: (size(most), size(most)) for name, most in SLIDES.items()}
        a |= {"padding": tuple(int(g.integers(2)) for _ in range(4))}
        a |= {"multiplier": size(2)} if stem.startswith("dw") else {"outputs": size(5)}
        return a | ({"method": one_of("direct", "columns")} if stem.startswith("conv") else {})
    for start, sizes in SIZES.items():
        if stem.startswith(start):
            return {name: size(most) + 1 for name, most in sizes.items()} | one_of(
                *OPTIONS.get(start, ({},))
            )
    shape = tuple(size(9) for _ in range(size(3)))
    every = range(len(shape))
    if stem in ("add", "multiply", "subtract", "divide"):
        return {"a": shape, "b": tuple(one_of(1, n) for n in shape)}
    own: Mapping[str, Callable[[], Arguments]] = {
        "reduce": lambda: {"axes": (one_of(*every),), "what": one_of("sum", "mean", "max")},
        "softmax": lambda: {"axis": one_of(*every)},
        "clamp": lambda: {"low": -1.0, "high": one_of(1.0, 6.0)},
        "sgd": lambda: {"lr": 0.1},
        "sgd_momentum": lambda: {"lr": 0.1, "momentum": 0.9},
        "pad": lambda: {"before": (1,) * len(shape), "after": (2,) * len(shape)},
        "slice": lambda: {"start": (0,) * len(shape), "size": tuple(map(size, shape))},
        "concat": lambda: {"axis": 0, "sizes": (shape[0],)},
        "transpose": lambda: {"axes": tuple(map(int, g.permutation(len(shape))))},
        "replace_label": lambda: {"old": 1, "new": 3},
        "gelu": lambda: {"approximate": one_of("none", "tanh")},
    }
    more = own.get(stem) or own.get(stem.rpartition("_")[0])
    return {"shape": shape} | (more() if more else {})


SLIDES = {"kernel": 3, "stride": 2, "dilation": 2}
SIZES = {
    "pwconv2d": {"inputs": 6, "outputs": 6, "height": 6, "width": 6},
    "linear": {"inputs": 20, "outputs": 20, "batch": 4},
    "matmul_batched": {"batch": 2, "n": 9, "k": 20, "m": 9},
    "matmul": {"n": 9, "k": 30, "m": 9},
    "batchnorm": {"b": 2, "c": 4, "hw": 20},
    "instancenorm": {"b": 2, "c": 4, "hw": 20},
    "groupnorm": {"b": 2, "hw": 20},
    "layernorm": {"rows": 5, "columns": 40},
    "rmsnorm": {"rows": 5, "columns": 40},
    "maxpool": {"b": 1, "c": 2, "h": 9, "w": 9},
    "avgpool": {"b": 1, "c": 2, "h": 9, "w": 9},
    "nearest": {"c": 2, "h": 6, "w": 6},
    "bilinear": {"c": 2, "h": 6, "w": 6},
    "rnn": {"steps": 2, "inputs": 5, "hidden": 6, "batch": 2},
    "lstm": {"steps": 2, "inputs": 5, "hidden": 6, "batch": 2},
    "gru": {"steps": 2, "inputs": 5, "hidden": 6, "batch": 2},
    "mhsa": {"length": 6},
    "cross_entropy": {"b": 5, "classes": 30},
    "embedding": {"entries": 8, "tokens": 8, "columns": 9},
    "change_scale": {},
    "adam_corrections": {},
}
WINDOWS = (
    *({"kernel": (2, 2)}, {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 1)}),
    {"kernel": (3, 3), "stride": (1, 3)},
)
OUT = ({"out": (9, 4)}, {"out": (3, 11)}, {"out": (1, 7)})
OPTIONS: Mapping[str, tuple[Arguments, ...]] = {
    "groupnorm": ({"c": 4, "groups": 2}, {"c": 6, "groups": 3}),
    **dict.fromkeys(("maxpool", "avgpool"), WINDOWS),
    **dict.fromkeys(("nearest", "bilinear"), OUT),
    "mhsa": ({"embed": 4, "heads": 2}, {"embed": 6, "heads": 1}),
    "cross_entropy": ({}, {"is_soft": True}),
}


def wrong(draw: Draw) -> list[str]:
    """What is wrong with a kernel's outputs by the check's own verdict, and beside PyTorch."""
    _, report = launch(draw.kernel, draw.arguments, WARM, draw.inputs, guard=64, max_cycles=LONGEST)
    end = report.result.exit
    found = [] if (end.reason, end.code) == ("exit", 0) else [f"ended: {end}"]
    found += [f"stray writes: {len(report.stray_writes)}"] if report.stray_writes else []
    for name, (exact, bound) in report.expected.items():
        error = report.errors[name]
        bad = ~((error == 0) | (error <= bound))
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            most, got = np.broadcast_to(bound, error.shape)[at], report.outputs[name][at]
            found.append(f"{name}{list(at)} {got!r}, exact {exact[at]!r} +- {most!r}")
    return [*found, *unlike_torch(draw, report)]


def unlike_torch(draw: Draw, report: Report) -> list[str]:
    """What is further off than 4 times PyTorch and LIMIT allow, or finite where its result is not,
    or the other way.

    PyTorch's error is the largest of some, here and at inputs nearby: one may be 0 by chance.

    Left out: what overflows on the way, see docs/kernels.md; W and dY that are not finite where
    padding is (`direct` multiplies nothing with it); the gradient of ELU at NaN, which PyTorch has
    as NaN or not by the size of the tensor; GELU at -infinity, which is 0 here and NaN there; NaN
    in BCE, which PyTorch refuses; an infinite gamma, of which PyTorch's order of sums makes NaN.
    """
    from tests.trainlib.torch_meanings import golden

    if draw.kind in ("nan", "inf") and draw.kernel.startswith(
        ("conv2d", "elu_bw", "gelu", "bce_l")
    ):
        return []
    if (draw.kind, draw.hurt) == ("inf", "gamma"):
        return []
    found = []
    nearby = [dict(_torch_errors(golden(near))) for near in _neighbours(draw)]
    for name, exact, single in golden(draw):
        got = report.outputs[name].astype(np.float64).reshape(exact.shape)
        bound = np.broadcast_to(report.expected[name][1], report.outputs[name].shape)
        is_told = np.isfinite(bound).reshape(exact.shape)
        with np.errstate(invalid="ignore"):
            finite = is_told & np.isfinite(exact) & np.isfinite(single)
            neither = is_told & ~np.isfinite(exact) & ~np.isfinite(single)
            is_same = (got == single) | np.isnan(got) & np.isnan(single)
            own = np.abs(single - exact)[finite].max(initial=0.0)
            own = max([own, *(errors[name] for errors in nearby)])
            largest = np.abs(exact[finite]).max(initial=0.0)
            is_near = np.abs(got - exact)[finite] <= 4 * own + LIMIT * largest + 2.0**-125
        if not is_near.all():
            found.append(f"{name} is off by more than 4 times PyTorch's {own:g} and of {largest:g}")
        if not is_same[neither].all():
            found.append(f"{name} is not PyTorch's {single[neither & ~is_same][0]}")
    return found


def _neighbours(draw: Draw) -> Iterator[Draw]:
    """Draws of which one input is nearly the same, but none that other kernels have made."""
    for name, array in draw.inputs.items():
        if array.dtype == np.float32 and name not in ORDINARY:
            for factor in NEARBY:
                yield draw._replace(inputs={**draw.inputs, name: array * np.float32(factor)})


def _torch_errors(
    results: Iterable[tuple[str, np.ndarray, np.ndarray]],
) -> Iterator[tuple[str, float]]:
    """How far PyTorch's float32 is off, of what is finite."""
    for name, exact, single in results:
        finite = np.isfinite(exact) & np.isfinite(single)
        with np.errstate(invalid="ignore"):
            yield name, float(np.abs(single - exact)[finite].max(initial=0.0))


def main() -> int:
    """Draw, run, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.trainlib.hurting", description=__doc__)
    parser.add_argument("names", nargs="*", help="kernels; all by default")
    parser.add_argument("--draws", type=int, default=4, metavar="N", help="of each kernel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, help="of values; any by default")
    options = parser.parse_args()
    count = bad = 0
    kinds = [options.kind] if options.kind else KINDS
    for draw in draws(options.names or NAMES, options.draws, options.seed, kinds):
        count += 1
        if found := wrong(draw):
            bad += 1
            what = draw.kernel, f"{draw.kind} {draw.hurt}", draw.arguments
            print(*what, *found, sep="\n    ", flush=True)
    print(f"{count} drawn, {bad} wrong")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

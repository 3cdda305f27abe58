"""Every primitive of trainlib at a shape that fits L1, and at one that does not."""

from typing import Any, NamedTuple

from trainlib.registry import KERNELS

CONVOLUTION = {"kernel": 3, "padding": 1}
SMALL_MAP, LARGE_MAP = {"height": 12, "width": 12}, {"height": 48, "width": 48}
IMAGES = (
    CONVOLUTION | SMALL_MAP | {"inputs": 4, "outputs": 8},
    CONVOLUTION | LARGE_MAP | {"inputs": 8, "outputs": 16},
)
STACK = [{"kind": "linear", "outputs": 4}]
ROWS = {"rows": 4, "columns": 16}, {"rows": 2, "columns": 20_000}
POOL = {"c": 2, "h": 8, "w": 8, "kernel": [2, 2]}, {"c": 8, "h": 64, "w": 64, "kernel": [2, 2]}
RESIZED = {"c": 2, "h": 8, "w": 8, "out": [16, 16]}, {"c": 8, "h": 32, "w": 32, "out": [64, 64]}
RECURRENT = {"steps": 3, "inputs": 8, "hidden": 8}, {"steps": 6, "inputs": 96, "hidden": 128}
CHANNELS = {"c": 4, "hw": 16}, {"c": 2, "hw": 30_000}
PAIR = {"a": [8, 16]}, {"a": [40, 1000]}
SHAPE = {"shape": [8, 16]}, {"shape": [40, 1000]}
LIMITED = tuple(shape | {"low": 0.0, "high": 6.0} for shape in SHAPE)
BOX = {"start": [1, 0], "size": [6, 8]}, {"start": [1, 0], "size": [38, 900]}

ARGUMENTS: dict[str, tuple[dict[str, Any], ...]] = {
    "mhsa": ({"length": 8, "embed": 16, "heads": 2}, {"length": 96, "embed": 64, "heads": 4}),
    "dwconv2d": (
        CONVOLUTION | SMALL_MAP | {"inputs": 4},
        CONVOLUTION | LARGE_MAP | {"inputs": 16},
    ),
    "pwconv2d": (
        SMALL_MAP | {"inputs": 8, "outputs": 8},
        LARGE_MAP | {"inputs": 16, "outputs": 16},
    ),
    "linear": ({"inputs": 32, "outputs": 16}, {"inputs": 256, "outputs": 128}),
    "matmul": ({"n": 16, "k": 16, "m": 16}, {"n": 128, "k": 128, "m": 128}),
    "cross": ({"b": 4, "classes": 10}, {"b": 4, "classes": 20_000}),
    "embedding": (
        {"entries": 20, "columns": 16, "tokens": 5},
        {"entries": 500, "columns": 64, "tokens": 100},
    ),
    "clamp": LIMITED,
    "replace": tuple(shape | {"old": 1, "new": 5} for shape in SHAPE),
    "slice": tuple(shape | box for shape, box in zip(SHAPE, BOX, strict=True)),
    "concat": (
        SHAPE[0] | {"axis": 0, "sizes": [2, 6]},
        SHAPE[1] | {"axis": 0, "sizes": [10, 30]},
    ),
    "transpose": ({"shape": [8, 16], "axes": [1, 0]}, {"shape": [100, 300], "axes": [1, 0]}),
    "pad": (
        {"shape": [8, 16], "before": [1, 1], "after": [1, 1]},
        {"shape": [100, 300], "before": [1, 1], "after": [1, 1]},
    ),
    "groupnorm": (CHANNELS[0] | {"groups": 2}, CHANNELS[1] | {"groups": 2}),
    "reduce": ({"shape": [8, 16], "axes": [1]}, {"shape": [40, 1000], "axes": [1]}),
    "softmax": ({"shape": [4, 16]}, {"shape": [2, 20_000]}),
    "sgd": (SHAPE[0] | {"lr": 0.1}, SHAPE[1] | {"lr": 0.1}),
    "train": (
        {"lr": 0.1, "input": [8], "layers": STACK},
        {"lr": 0.1, "input": [4096], "layers": STACK},
    ),
    **dict.fromkeys(("add", "subtract", "multiply", "divide"), PAIR),
    **dict.fromkeys(("conv2d", "tconv2d"), IMAGES),
    **dict.fromkeys(("batchnorm", "instancenorm"), CHANNELS),
    **dict.fromkeys(("layernorm", "rmsnorm"), ROWS),
    **dict.fromkeys(("maxpool2d", "avgpool2d"), POOL),
    **dict.fromkeys(("nearest", "bilinear"), RESIZED),
    **dict.fromkeys(("rnn", "gru", "lstm"), RECURRENT),
}
"""By the first word of the name; SHAPE for all others."""

OF_ONE_SIZE = ("adam_corrections_f32", "change_scale_f32")


class Shaped(NamedTuple):
    """A primitive with arguments."""

    kernel: str
    arguments: dict[str, Any]
    is_large: bool


def shaped(kernel: str, *, is_large: bool) -> Shaped:
    """A primitive at one of its shapes."""
    arguments = ARGUMENTS.get(kernel.split("_")[0], SHAPE)[is_large]
    if kernel.startswith("sgd_momentum"):
        arguments = arguments | {"momentum": 0.9}
    return Shaped(kernel, {} if kernel in OF_ONE_SIZE else arguments, is_large)


EVERY = [shaped(kernel, is_large=False) for kernel in KERNELS] + [
    shaped(kernel, is_large=True) for kernel in KERNELS if kernel not in OF_ONE_SIZE
]

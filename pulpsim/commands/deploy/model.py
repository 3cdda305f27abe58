"""The network that `pulpsim deploy FILE.py:NAME` means, its batches, and how it learns."""

import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from soc.config.toml import ConfigError
from trainlib.deploy import DeployError
from trainlib.deploy.graph.values import kind_of
from trainlib.deploy.optimizers import OPTIMIZERS, Optimizer
from trainlib.npz import read_npz

LOSSES = ("cross_entropy", "mse", "l1")
OWN = "own"  # what the module's forward gives of x and the target
SGD_LR = 0.01
INPUTS: dict[str, type] = {
    "f": np.float32,
    "i": np.int64,
    "u": np.int64,
    "b": np.bool_,
}  # by kinds of arrays
SHAPE = "a shape such as 4x3x32x32, the batch first"


@dataclass(frozen=True)
class Examples:
    """Batches: x[examples, ...] and target[examples, ...], in their order, again and again.

    more    what else the network takes: masks and other inputs, [examples, ...] each
    """

    x: np.ndarray
    target: np.ndarray
    batch: int
    more: Sequence[np.ndarray] = ()

    @property
    def count(self) -> int:
        """Batches until the first comes again."""
        return len(self.x) // self.batch

    def batches(self, count: int) -> Iterator[tuple[Any, Any]]:
        """So many batches, as torch tensors."""
        import torch

        for number in range(count):
            start = number % self.count * self.batch
            part = slice(start, start + self.batch)
            arrays = (self.x, *self.more, self.target)
            *inputs, target = (torch.from_numpy(array[part].copy()) for array in arrays)
            yield (tuple(inputs) if self.more else inputs[0]), target


def torch_module(written: str, seed: int) -> Any:
    """The torch.nn.Module of "FILE.py:NAME": NAME is one, or a function that returns one.

    seed    of PyTorch's random numbers before the file is run: the same weights each time

    raises    ConfigError
    """
    torch = _torch(written)
    check_network(written)
    torch.manual_seed(seed)
    found = _named(written)
    try:
        is_made = isinstance(found, torch.nn.Module) or not callable(found)
        module = found if is_made else found()
    except Exception as error:
        raise ConfigError([f"{written}: {type(error).__name__}: {_line(error)}"]) from None
    if not isinstance(module, torch.nn.Module):
        rule = "it has to be or return a torch.nn.Module"
        raise ConfigError([f"{written}: is {kind_of(module)}; {rule}"])
    return module


def check_network(written: str) -> None:
    """raises    ConfigError for what is no "FILE.py:NAME", and a file that there is not"""
    file, _, name = written.rpartition(":")
    if not name or not file.endswith(".py"):
        raise ConfigError([f"{written}: a network is FILE.py:NAME, or a FILE.onnx"])
    check_file(file, Path(file))


def check_file(said: str, file: Path) -> None:
    """raises    ConfigError where there is no such file"""
    if not file.exists():
        raise ConfigError([f"{said}: there is no such file"])


def load_weights(model: Any, file: Path) -> dict[str, np.ndarray]:
    """Put weights of an .npz file into a module; return all its arrays, optimizer states, too.

    raises    ConfigError for a bad file, and for weights of other shapes
    """
    import torch

    try:
        arrays = read_npz(file)
    except ValueError as error:
        raise ConfigError([f"--load {error}"]) from None
    state, weights = model.state_dict(), {}
    for name in state:
        if name in arrays:
            array, wanted = arrays[name], list(state[name].shape)
            if list(array.shape) != wanted:
                found = list(array.shape)
                raise ConfigError([f"--load {file}: {name} has {found}; the network has {wanted}"])
            _check_type(f"--load {file}", name, array)
            weights[name] = torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    model.load_state_dict(weights, strict=False)
    return arrays


def _torch(wanted_by: str) -> Any:
    """The package, which is an extra. Raises ConfigError without it."""
    try:
        import torch
    except ImportError:
        missing = "torch is missing: pip install 'pulpsim[torch]'"
        raise ConfigError([f"{wanted_by}: {missing}"]) from None
    return torch


def _named(written: str) -> Any:
    """What a file calls so: "FILE.py:NAME".

    raises    ConfigError
    """
    file, _, name = written.rpartition(":")
    check_file(file, Path(file))
    found = getattr(_imported(Path(file)), name, None)
    if found is None:
        raise ConfigError([f"{written}: {file} has no {name}"])
    return found


def _imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError([f"{path}: {type(error).__name__}: {_line(error)}"]) from None
    finally:
        sys.path.pop(0)
    return module


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def loss_of(name: str) -> Any:
    """PyTorch's function of that name; one of (output, target) in a file, "FILE.py:NAME"; None for
    what the module's forward gives of x and the target, "own".

    raises    ConfigError
    """
    check_loss(name)
    if name == OWN:
        return None
    if name not in LOSSES:
        if not callable(found := _named(name)):
            raise ConfigError([f"--loss {name}: no function of (output, target)"])
        return found
    functional = _torch(f"--loss {name}").nn.functional
    return {
        "cross_entropy": functional.cross_entropy,
        "mse": functional.mse_loss,
        "l1": functional.l1_loss,
    }[name]


def check_loss(name: str) -> None:
    """raises    ConfigError for what is no loss, and a file that there is not"""
    file = name.rpartition(":")[0]
    if file.endswith(".py"):
        check_file(file, Path(file))
    elif name not in (*LOSSES, OWN):
        raise ConfigError([f"--loss {name}: there are {', '.join(LOSSES)}, {OWN}, FILE.py:NAME"])


def shape_of(written: str) -> tuple[int, ...]:
    """A shape such as 4x3x32x32, the batch first.

    raises    ConfigError
    """
    parts = written.lower().split("x")
    if len(parts) < 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise ConfigError([f"--input {written}: {SHAPE}"])
    return tuple(map(int, parts))


def examples_of(
    model: Any, shape: tuple[int, ...], loss: str, data: Path | None, seed: int
) -> Examples:
    """What an .npz file has as x and target, or random numbers.

    raises    ConfigError
    """
    if data is None and loss not in LOSSES:
        raise ConfigError(
            [
                f"--data is missing: an .npz file with x and target; what targets --loss {loss} "
                f"takes, it alone knows"
            ]
        )
    if data is None:
        return _random(model, shape, loss, seed)
    try:
        arrays = read_npz(data)
    except ValueError as error:
        raise ConfigError([str(error)]) from None
    if missing := [name for name in ("x", "target") if name not in arrays]:
        raise ConfigError([f"{data}: no array {' and no '.join(missing)}; it has x and target"])
    x, target = arrays["x"], arrays["target"]
    if x.shape[1:] != shape[1:]:
        raise ConfigError([f"{data}: x has {list(x.shape)}; --input says {list(shape)}"])
    more = _more_inputs(model, arrays, data)
    given = {"x": x, **more, "target": target}
    counts = {name: len(array) if array.ndim else 0 for name, array in given.items()}
    if len(set(counts.values())) > 1 or len(x) % shape[0] or not len(x):
        *first, last = (f"{count} of {name}" for name, count in counts.items())
        every = "both" if len(counts) == 2 else "all"
        raise ConfigError(
            [
                f"{data}: {', '.join(first)} and {last}; {every} have the same number, a multiple "
                f"of the batch of {shape[0]}"
            ]
        )
    for name, array in given.items():
        if name not in more or array.dtype.kind != "b":
            _check_type(str(data), name, array)
        _check_finite(data, name, array)
    is_class = loss in ("cross_entropy", OWN) or loss not in LOSSES
    is_class &= target.dtype.kind in "iu"
    inputs: list[np.ndarray] = [
        array.astype(INPUTS[array.dtype.kind]) for array in (x, *more.values())
    ]
    target = target.astype(np.int64 if is_class else np.float32)
    return Examples(inputs[0], target, shape[0], inputs[1:])


def _more_inputs(model: Any, arrays: Mapping[str, np.ndarray], data: Path) -> dict[str, np.ndarray]:
    """Arrays that are called as arguments of the network's forward, after the first, are.

    raises    ConfigError where one before another is missing
    """
    names = [name for name in list(signature(model.forward).parameters)[1:] if name != "target"]
    found = {name: arrays[name] for name in names if name in arrays}
    if missing := [name for name in names[: len(found)] if name not in found]:
        after = list(found)[-1]
        raise ConfigError([f"{data}: no array {missing[0]}; forward takes it before {after}"])
    return found


def _check_type(source: str, name: str, array: np.ndarray) -> None:
    """raises    ConfigError for what is neither floats nor integers"""
    if array.dtype.kind not in "fiu":
        raise ConfigError(
            [
                f"{source}: {name} is of type {array.dtype}: there are floats and integers; save "
                f"{name}.astype(np.float32), or np.int64 for numbers of classes"
            ]
        )


def _check_finite(file: Path, name: str, array: np.ndarray) -> None:
    """raises    ConfigError for what is no number in float32"""
    if array.dtype.kind != "f":
        return
    with np.errstate(over="ignore"):
        finite = np.isfinite(array.astype(np.float32))
    if not finite.all():
        place = tuple(int(n) for n in np.argwhere(~finite)[0])
        raise ConfigError(
            [f"{file}: {name}{list(place)} is {array[place]}: there are finite float32 alone"]
        )


def _random(model: Any, shape: tuple[int, ...], loss: str, seed: int) -> Examples:
    import torch

    numbers = np.random.default_rng(seed)
    x = numbers.standard_normal(shape, np.float32)
    was_training = model.training
    try:
        with torch.no_grad(), catch_warnings():
            simplefilter("ignore")
            output = model.eval()(torch.from_numpy(x))
    except Exception as error:
        message = f"--input {'x'.join(map(str, shape))}: the network does not take it: "
        if more := _arguments(model)[1:]:
            message = (
                f"--data is missing: an .npz file with x and target, and with {', '.join(more)}, "
                f"which forward takes beside it; PyTorch says: "
            )
        elif any(isinstance(module, torch.nn.Embedding) for module in model.modules()):
            message = (
                "--data is missing: random numbers are no rows of an embedding; PyTorch says: "
            )
        raise ConfigError([message + _line(error)]) from None
    finally:
        model.train(was_training)
    if not isinstance(output, torch.Tensor):
        raise ConfigError(
            [
                f"--loss {loss}: the network gives {kind_of(output)}; --loss FILE.py:NAME "
                f"is for a function of it, with --data"
            ]
        )
    sizes = tuple(output.shape)
    target: np.ndarray
    if loss == "cross_entropy":
        places = sizes[:1] + sizes[2:]  # of images and lines
        target = numbers.integers(0, sizes[1] if len(sizes) > 1 else sizes[0], places)
    else:
        target = numbers.standard_normal(sizes, np.float32)
    return Examples(x, target, shape[0])


def _arguments(model: Any) -> list[str]:
    """Names of what forward has to be given."""
    given = signature(model.forward).parameters.values()
    kinds = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    return [p.name for p in given if p.default is p.empty and p.kind in kinds]


def optimizer_of(name: str, options: dict[str, Any]) -> Optimizer:
    """An optimiser by its name, with those options that were given.

    raises    ConfigError
    """
    if name not in OPTIMIZERS:
        raise ConfigError([f"--optimizer {name}: there are {', '.join(OPTIMIZERS)}"])
    kind = OPTIMIZERS[name]
    known = {field.name for field in fields(kind)}
    given = {option: value for option, value in options.items() if value is not None}
    if name == "sgd":
        given.setdefault("lr", SGD_LR)
    if wrong := sorted(given.keys() - known):
        option = wrong[0].replace("_", "-")
        raise ConfigError([f"--{option}: {name} has none; leave it out, or take sgd"])
    try:
        return kind(**given)
    except DeployError as error:
        raise ConfigError(str(error).split("\n")) from None


def precision_of(
    dtype: str = "f32", dtypes: Sequence[str] = (), loss_scale: str | None = None
) -> dict[str, Any]:
    """What --dtype, --layer-dtype and --loss-scale say, as `deploy` takes it.

    raises    ConfigError
    """
    by_layer = {}
    for written in dtypes:
        pattern, equals, name = written.rpartition("=")
        if not equals or not pattern:
            raise ConfigError([f"--layer-dtype {written}: PATTERN=TYPE, such as head.*=f32"])
        by_layer[pattern] = name
    scale: float | str | None = loss_scale
    if loss_scale not in (None, "dynamic"):
        try:
            scale = float(str(loss_scale))
        except ValueError:
            raise ConfigError([f"--loss-scale {loss_scale}: a number, or dynamic"]) from None
    return {"dtype": dtype, "dtypes": by_layer, "loss_scale": scale}


def check_numbers(options: Mapping[str, int | None], least: int = 1) -> None:
    """raises    ConfigError for numbers below the least, a line each"""
    given = [(option, number) for option, number in options.items() if number is not None]
    if wrong := [each for each in given if not least <= each[1] < 1 << 63]:
        raise ConfigError([f"{option} {n}: a number from {least} on" for option, n in wrong])

"""PyTorch in: a module and its loss as a graph, by torch.export.

torch is an optional extra, and imported here, in `exported_graph` and in `torch_program` alone. The
module's mode counts: a batch norm in evaluation mode uses its running statistics; parameters with
requires_grad = False do not learn.
"""

import copy
import logging
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from traceback import extract_tb
from typing import Any
from warnings import catch_warnings, simplefilter

import torch
from torch.distributions import Distribution
from torch.export import export
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.modules import transformer

from trainlib.deploy.graph.values import DeployError, Graph, kind_of, raise_all
from trainlib.deploy.importers.exported_graph import (
    TENSORS_ALONE,
    NoKernelError,
    graph_of_program,
)
from trainlib.deploy.importers.torch_decomposed import Decomposed
from trainlib.deploy.importers.torch_program import CHANGED, plain

NORM = torch.nn.modules.batchnorm._NormBase

LIBRARIES = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).parents[2]),
    sysconfig.get_path("stdlib"),
)
"""Folders whose code is not the user's."""

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class _WithLoss(torch.nn.Module):
    """A module whose forward gives the loss, and what the module gives: without a loss of its own
    the loss, of x and the target.
    """

    def __init__(self, module: torch.nn.Module, loss: Loss | None) -> None:
        super().__init__()
        self.module, self.loss = module, loss

    def forward(self, x: Any, target: Any) -> tuple[Any, ...]:
        """(loss, output); twice the loss if that is what the module gives."""
        inputs = x if isinstance(x, tuple) else (x,)
        if self.loss is None:
            loss = self.module(*inputs, target)
            return loss, loss
        y = self.module(*inputs)
        return self.loss(y, target), y


def graph_of(
    module: torch.nn.Module, loss: Loss | None, x: Any, target: Any
) -> tuple[Graph, tuple[str, ...]]:
    """The graph of a module with a loss, for batches like this one; and its outputs' names.

    x         a tensor, or a tuple: the module's arguments; each may be a dict of tensors
    target    a tensor, or a tuple or dict of them

    raises    DeployError for what torch cannot export, and for operators that have no kernel
    """
    x, target = _tensors("x", x), _tensors("target", target)
    wrapped = _WithLoss(module, loss)
    try:
        with catch_warnings(), _quiet(), _unchecked():
            simplefilter("ignore")  # of weights that a recurrent layer assigns to itself
            program = plain(export(wrapped, (x, target)))
    except DeployError:
        raise
    except Exception as error:
        _check_norms(module)
        _run_once(wrapped, x, target)
        is_guard = isinstance(error, GuardOnDataDependentSymNode)  # whose line means nothing
        reason = TENSORS_ALONE if is_guard else f"{_line(error)}; {TENSORS_ALONE}"
        raise DeployError(
            f"{type(module).__name__}: torch.export cannot capture it{_place(error)}: {reason}"
        ) from None
    firsts = _firsts(wrapped)
    _check_buffers(wrapped, x, target)
    try:
        return graph_of_program(program, firsts)
    except NoKernelError as refused:
        try:
            composed = Decomposed(program)
            found = graph_of_program(composed.whole(), firsts)
        except Exception:  # of torch, too, or of what has no kernel either
            raise composed.refusal(firsts) or refused from None
    composed.check(wrapped, x, target)
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Let torch log and print nothing: what goes wrong is an exception, too."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(level)


@contextmanager
def _unchecked() -> Iterator[None]:
    """Let Python read no numbers that change nothing: distributions do not check their arguments,
    and transformers do not look whether a mask that is given as one is causal.
    """
    checks, looks = Distribution._validate_args, transformer._detect_is_causal_mask
    Distribution.set_default_validate_args(False)
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: bool(is_causal)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(checks)
        transformer._detect_is_causal_mask = looks


def _check_buffers(wrapped: _WithLoss, x: Any, target: Any) -> None:
    """Compute a batch in PyTorch, where a module has buffers that no batch norm keeps: with other
    parameters, as after an update, since what has converged does not change by itself.

    raises    DeployError for those that it changes: torch.export may leave that out, as of a
              spectral norm
    """
    norms = (part for part in wrapped.modules() if isinstance(part, NORM))
    kept = {id(buffer) for norm in norms for buffer in norm.buffers()}
    before = {name: b.clone() for name, b in wrapped.named_buffers() if id(b) not in kept}
    if not before:
        return
    tried = copy.deepcopy(wrapped)
    with torch.no_grad(), torch.random.fork_rng(devices=[]), catch_warnings():
        simplefilter("ignore")
        torch.manual_seed(0)
        for parameter in tried.parameters():
            if parameter.is_floating_point():
                parameter.mul_(torch.empty_like(parameter).uniform_(0.5, 1.5))
        tried(x, target)
    after = dict(tried.named_buffers())
    same = {n: (b == after[n]) | ((b != b) & (after[n] != after[n])) for n, b in before.items()}
    changed = [name for name, where in same.items() if not where.all()]  # NaN stays NaN
    raise_all([DeployError(CHANGED.format(n.removeprefix("module."))) for n in changed])


def _check_norms(module: torch.nn.Module) -> None:
    """raises    DeployError for batch norms whose statistics are means of all batches"""
    for name, part in module.named_modules():
        is_norm = isinstance(part, NORM)
        if is_norm and part.momentum is None and part.training and part.track_running_stats:
            raise DeployError(
                f"layer {name}: momentum=None, a mean of all batches; the kernel has a number: "
                f"give it a momentum, such as 0.1"
            )


def _run_once(wrapped: _WithLoss, x: Any, target: Any) -> None:
    """Compute a batch in PyTorch.

    raises    DeployError if it does not take it either
    """
    try:
        with torch.no_grad():
            copy.deepcopy(wrapped)(x, target)
    except Exception as error:
        given = f"x {_said(x)} and target {_said(target)}"
        name = type(wrapped.module).__name__
        raise DeployError(f"{name}: PyTorch does not take {given}: {_line(error)}") from None


def _said(given: Any) -> str:
    """Shapes and types."""
    if isinstance(given, dict):
        return f"{{{', '.join(f'{key}: {_said(part)}' for key, part in given.items())}}}"
    if isinstance(given, tuple):
        return f"({', '.join(map(_said, given))})"
    return f"{list(given.shape)} {str(given.dtype).removeprefix('torch.')}"


def _line(error: Exception) -> str:
    """The first line of what it says, and its kind if that is nothing."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _place(error: Exception) -> str:
    """The last line of the user's own code that it comes from: of no package."""
    own = [f for f in extract_tb(error.__traceback__) if not _is_library(f.filename)]
    return f" at {own[-1].filename}, line {own[-1].lineno}, `{own[-1].line}`" if own else ""


def _is_library(file: str) -> bool:
    return "site-packages" in file or file.startswith(("<", *LIBRARIES))


def _tensors(name: str, given: Any) -> Any:
    """A tensor, or a tuple of them, or a dict, in the order of its keys.

    raises    DeployError for anything else
    """
    if isinstance(given, Mapping):
        return {key: _tensors(f"{name}[{key!r}]", given[key]) for key in sorted(given, key=str)}
    if isinstance(given, (tuple, list)):
        return tuple(_tensors(f"{name}[{n}]", part) for n, part in enumerate(given))
    try:
        tensor = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        raise DeployError(
            f"{name}: {kind_of(given)}; it is a tensor, an array, or a tuple or dict of them"
        ) from None
    if not tensor.numel():
        raise DeployError(f"{name}: shape {list(tensor.shape)} has no elements; give a batch")
    if tensor.is_complex() or tensor.dtype == torch.uint8:
        raise DeployError(
            f"{name}: type {tensor.dtype}; there are floats, masks of torch.bool, and integers as "
            f"numbers of classes and rows: give {name}.float(), or {name}.long()"
        )
    return tensor


def _firsts(module: torch.nn.Module) -> dict[str, str]:
    """Parameters and buffers by all their names: the first name of each."""
    seen: dict[int, str] = {}
    found = {}
    for every in (module.named_parameters, module.named_buffers):
        for name, tensor in every(remove_duplicate=False):
            found[name] = seen.setdefault(id(tensor), name)
    return found

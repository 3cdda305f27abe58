"""A program whose operators without a rule are composed of others, as PyTorch has it.

PyTorch's own compositions may be wrong: the loss of a batch is held against the module's.
"""

import copy
from collections.abc import Mapping
from math import isclose
from typing import Any
from warnings import catch_warnings, simplefilter

import torch
from torch._decomp import decomposition_table
from torch.export import ExportedProgram, default_decompositions

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.importers.exported_graph import graph_of_program, has_rule
from trainlib.deploy.importers.torch_program import operator_of, recomposed

CLOSE = 1e-3  # relative: losses in float32


class Decomposed:
    """A program, and how its operators without a rule may be composed."""

    def __init__(self, program: ExportedProgram) -> None:
        if any(not isinstance(op, torch._ops.OpOverload) for op in _unknown(program)):
            program = recomposed(program, {})  # of functions of functions, as vmap
        self.program = program
        self.unknown = _unknown(program)
        self.ways = default_decompositions()
        self.made = program

    def whole(self) -> ExportedProgram:
        """All operators without a rule are composed, as far as PyTorch has a way."""
        self.made = self._composed(self.unknown)
        return self.made

    def refusal(self, firsts: Mapping[str, str]) -> DeployError | None:
        """What is missing, where what can be composed of others is not; None: it cannot be said.

        firsts    names of parameters and buffers as they are called first
        """
        try:
            rest = {
                op for op in self.unknown if _unknown(self._composed({op})) <= self.unknown - {op}
            }
            graph_of_program(self._composed(rest), firsts)
        except DeployError as error:
            return error
        except Exception:  # of torch
            return None
        return None

    def check(self, module: torch.nn.Module, x: Any, target: Any) -> None:
        """Compute a batch with the operators and with what they have been composed of.

        raises    DeployError for another loss
        """
        if any(torch.Tag.nondeterministic_seeded in tags for tags in _tags(self.program)):
            return
        with torch.no_grad(), catch_warnings():
            simplefilter("ignore")
            loss = float(copy.deepcopy(module)(x, target)[0])
            kept = {name: value.clone() for name, value in module.named_buffers()}
            found = float(self.made.module()(x, target)[0])
            for name, value in module.named_buffers():
                value.copy_(kept[name])
        if not isclose(loss, found, rel_tol=CLOSE, abs_tol=CLOSE) and loss == loss:
            names = ", ".join(sorted(map(_name, self.unknown)))
            raise DeployError(
                f"{names}: PyTorch composes it of other operators, which give a loss of "
                f"{found:.6g}, not {loss:.6g}: say it by others yourself"
            )

    def _composed(self, operators: set[Any]) -> ExportedProgram:
        """The program without these operators, and without those that they are composed of and
        that have no rule.
        """
        program, left, tried = self.program, set(operators), set[Any]()
        others = self.unknown - operators
        while left:
            tried |= left
            known = {op: way for op in left if (way := self._way(op)) is not None}
            if known:
                program = recomposed(program, known)
            left = _unknown(program) - tried - others
        return program

    def _way(self, operator: Any) -> Any:
        """A function that computes an operator by others, if there is one."""
        if operator in self.ways:
            return self.ways[operator]
        if operator in decomposition_table:
            return decomposition_table[operator]
        can = isinstance(operator, torch._ops.OpOverload) and operator._can_decompose()
        return operator.decompose if can else None


def _calls(program: ExportedProgram) -> list[Any]:
    return [node for node in program.graph.nodes if node.op == "call_function"]


def _unknown(program: ExportedProgram) -> set[Any]:
    """Operators without a rule."""
    return {node.target for node in _calls(program) if not has_rule(operator_of(node))}


def _tags(program: ExportedProgram) -> list[Any]:
    return [getattr(node.target, "tags", ()) for node in _calls(program)]


def _name(operator: Any) -> str:
    return str(operator.__name__).removesuffix(".default")

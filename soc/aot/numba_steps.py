"""Step functions, links and bit sets as Numba sees them: imported where something is compiled."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model, typeof_impl

from isa.floats import hostfloat
from isa.jitable import compile_as
from soc.aot import numba_chip as chip_types
from soc.aot.kept_steps import begin_keeping, end_keeping, keep, linked
from soc.aot.numba_chip import ARRAY_TYPES, CHIP_TYPE
from soc.aot.numba_internals import (
    CPUDispatcher,
    ExternalFunctionDescriptor,
    cpu_target,
    from_dtype,
    lower_constant,
    make_concrete_template,
    signature,
)
from soc.aot.numba_passes import ColdCompiler, LeanCompiler, RenamingCompiler
from soc.aot.unit import WORDS, Link, Unit
from soc.chip.state import Chip
from soc.chip.superblock_call import call_superblock
from soc.prelude.bits import bit, lowest_index, members
from soc.prelude.step import Step, compile_steps_with

OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "_nrt": False}
"""The interpreter lock is released while Numba runs step functions by themselves. Nothing is
allocated on the way, so arrays need not be counted: faster to compile and to run."""

building: Unit | None = None
"""The unit that is being compiled in this process; what it calls of others is linked."""


class StepDispatcher(CPUDispatcher):
    """Numba's dispatcher, which compiles a function once, not again for each constant argument.

    What Python itself calls is kept for the next process, with all that it calls.
    """

    def compile(self, sig):
        if building is not None or not begin_keeping():
            return super().compile(sig)
        try:
            keep(self)
            return super().compile(sig)
        finally:
            end_keeping()

    def get_call_template(self, args, kws):
        return super().get_call_template(
            tuple(types.unliteral(kind) for kind in args),
            {name: types.unliteral(kind) for name, kind in kws.items()},
        )


def dispatcher(
    function: Callable,
    forceinline: bool = False,
    is_cold: bool = False,
    keeps_types: bool = False,
) -> Callable:
    """Numba's object for a step function; itself where NUMBA_DISABLE_JIT says so."""
    if numba.config.DISABLE_JIT:
        return function
    options = OPTIONS | {"forceinline": forceinline}
    pipeline = LeanCompiler if keeps_types else ColdCompiler if is_cold else RenamingCompiler
    return StepDispatcher(function, targetoptions=options, pipeline_class=pipeline)


compile_steps_with(dispatcher)


@typeof_impl.register(Step)
def _typeof_step(value: Step, context: object) -> types.Type:
    if link := linked.get(value):
        return _link_type(link)
    return types.Dispatcher(value.dispatcher)


_SCALARS = {
    None: types.none,
    int: types.int64,
    bool: types.boolean,
    np.uint64: types.uint64,
    Chip: CHIP_TYPE,
    WORDS: ARRAY_TYPES["l1"],
}


def numba_type(kind: Any) -> types.Type:
    """Numba's type for one that a link takes or returns."""
    if isinstance(kind, np.dtype):
        return from_dtype(kind)
    if isinstance(kind, tuple):
        return types.BaseTuple.from_types([numba_type(each) for each in kind])
    return _SCALARS[kind]


class LinkType(types.Callable, types.Opaque):
    """Numba's type of a link: a function that is known by its signature alone."""

    def __init__(self, link: Link):
        self.link = link
        self.signature = signature(
            numba_type(link.returns), *(numba_type(kind) for kind in link.takes)
        )
        super().__init__(name=f"Link({link.symbol})")

    def get_call_type(self, context, args, kws):
        template = make_concrete_template(self.link.name, self.link.name, [self.signature])
        return template(context).apply(args, kws)

    def get_call_signatures(self):
        return [self.signature], False

    def get_impl_key(self, sig):
        return self.link


register_model(LinkType)(models.OpaqueModel)


@lower_constant(LinkType)
def _link_constant(context, builder, kind, value):
    return context.get_dummy_value()


_known: dict[Link, LinkType] = {}


@typeof_impl.register(Link)
def _typeof_link(value: Link, context: object) -> types.Type:
    if building is None:
        return typeof_impl(value.step_function, context)
    if value.unit not in building.uses:
        raise TypeError(
            f"unit {building.name} calls {value.name} of unit {value.unit.name}, which is not one "
            "of those that it uses; name it where the unit is declared"
        )
    return _link_type(value)


def _link_type(value: Link) -> LinkType:
    if value not in _known:
        kind = _known[value] = LinkType(value)
        described = ExternalFunctionDescriptor(
            value.symbol, kind.signature.return_type, kind.signature.args
        )
        cpu_target.target_context.insert_user_function(value, described)
    return _known[value]


@intrinsic
def _count_trailing_zeros(typing, mask):
    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def _count_bits(typing, mask):
    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _compiled_members(mask):
    return _count_bits(mask)


def _compiled_lowest_index(mask):
    return _count_trailing_zeros(mask)


def _compiled_call_superblock(code, chip, h, now, others):
    return chip_types.call_superblock(code, chip, h, now, others)


def register_meanings() -> None:
    """Let step functions call what meanings call; again, if meanings were imported since."""
    hostfloat.register(dispatcher)


register_meanings()
for _function, _form in (
    (lowest_index, _compiled_lowest_index),
    (members, _compiled_members),
    (bit, bit),
    (call_superblock, _compiled_call_superblock),
):
    compile_as(_function, dispatcher(_form, forceinline=True))

"""The chip's State as compiled code sees it: one pointer, to a table of the arrays' addresses.

Passed by value the arrays would fill some hundred registers at every call of a step function; so
`chip` is one machine word there, and `chip.harts` makes the array where it is used. In plain Python
the same expressions are those of the object.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import (
    NativeValue,
    intrinsic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from soc.aot.numba_internals import (
    AttributeTemplate,
    cgutils,
    infer_getattr,
    lower_getattr,
    make_array,
    populate_array,
)
from soc.chip.state import ARRAYS, Chip
from soc.chip.superblock_call import CONVENTION


class ChipType(types.Type):
    """Numba's type of Chip."""

    def __init__(self) -> None:
        super().__init__(name="Chip")


CHIP_TYPE = ChipType()
WORD = ir.IntType(64)


@typeof_impl.register(Chip)
def _typeof_chip(value: Chip, context: object) -> ChipType:
    return CHIP_TYPE


@register_model(ChipType)
class _ChipModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, WORD)


@unbox(ChipType)
def _unbox_chip(kind, value, c):
    address = c.pyapi.object_getattr_string(value, "address")
    word = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    return NativeValue(word, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


ARRAY_TYPES = {name: numba.typeof(np.zeros(1, dtype)) for name, dtype in ARRAYS.items()}


@infer_getattr
class _ChipAttributes(AttributeTemplate):
    key = ChipType

    def generic_resolve(self, chip: ChipType, name: str) -> types.Array | None:
        return ARRAY_TYPES.get(name)


def _itemsize(context, dtype) -> int:
    if isinstance(dtype, types.Record):
        return dtype.size
    return context.get_abi_sizeof(context.get_data_type(dtype))


def _entry(builder, table, place: int):
    """Load a word of the table, which never changes: LLVM need not load it again after stores."""
    word = builder.load(builder.gep(table, [ir.Constant(WORD, place)]))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


@intrinsic
def call_superblock(typing, code, chip, h, now, others):
    """Call the machine code of a superblock: see soc.core.hotness."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(WORD, [WORD] * 4)
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(function, arguments[1:], cconv=CONVENTION)

    word, bits = types.int64, types.uint64
    return word(bits, CHIP_TYPE, word, word, bits), generate


constants: dict[str, str] = {}
"""Symbols of arrays that are constants of the unit that is being compiled, by name."""


def _constant(module, symbol: str) -> ir.GlobalVariable:
    if symbol in module.globals:
        return module.globals[symbol]
    place = ir.GlobalVariable(module, ir.IntType(8), symbol)
    place.global_constant = True
    place.align = 8
    return place


def _define_attribute(name: str, index: int, array: types.Array) -> None:
    @lower_getattr(ChipType, name)
    def make(context, builder, kind, chip):
        if name in constants:
            place = _constant(builder.module, constants[name])
            address, length = builder.ptrtoint(place, WORD), ir.Constant(WORD, 1)
        else:
            table = builder.inttoptr(chip, WORD.as_pointer())
            address, length = (_entry(builder, table, 2 * index + part) for part in range(2))
        item = context.get_constant(types.intp, _itemsize(context, array.dtype))
        made = make_array(array)(context, builder)
        populate_array(
            made,
            data=builder.inttoptr(address, made.data.type),
            shape=[length],
            strides=[item],
            itemsize=item,
            meminfo=None,
        )
        return made._getvalue()


for _index, (_name, _array) in enumerate(ARRAY_TYPES.items()):
    _define_attribute(_name, _index, _array)

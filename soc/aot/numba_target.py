"""Numba's internals as the compiler of units needs them: here, and nowhere else, they are replaced.

Numba by itself optimises every function with all that it calls, and makes machine code of each.
Here its libraries only collect text; the text of a whole unit is optimised and translated once.

They differ between versions: soc.aot.versions has those for which this is tested.
"""

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types

from soc.aot.numba_internals import (
    Context,
    Signature,
    cgutils,
    codegen,
    cpu,
    cpu_target,
    rtsys,
)


class TextLibrary(codegen.CodeLibrary):
    """The text of a function, and the libraries of those that it calls."""

    def __init__(self, owner, name):
        super().__init__(owner, name)
        self.texts: list[str] = []
        self.callees: dict[TextLibrary, None] = {}

    def add_ir_module(self, ir_module):
        self.texts.append(cgutils.normalize_ir_text(str(ir_module)))

    def add_linking_library(self, library):
        self.callees[library] = None

    def finalize(self):
        self._finalized = True

    def get_pointer_to_function(self, name):
        return 1  # it is not called in this process

    def get_function(self, name):
        raise NotImplementedError

    get_llvm_str = get_asm_str = get_defined_functions = get_function


class TextCodegen(codegen.JITCPUCodegen):
    """Numba's code generator for this processor, without its execution engine."""

    _library_class = TextLibrary

    def _init(self, llvm_module):
        options = {"opt": 3}
        self._tm_features = self._customize_tm_features()
        self._customize_tm_options(options)
        target = llvm.Target.from_triple(llvm.get_process_triple())
        self._tm = target.create_target_machine(**options)
        self._target_data = self._tm.target_data
        self._data_layout = str(self._target_data)

    def set_env(self, env_name, env):
        pass


class TextContext(cpu.CPUContext):
    """Numba's target with this code generator, and no ways into functions from Python."""

    def init(self):
        self.is32bit = False
        self._internal_codegen = TextCodegen("unit")

    def post_lowering(self, mod, library):
        pass

    def create_cpython_wrapper(self, library, fndesc, env, call_helper, release_gil=False):
        pass

    def create_cfunc_wrapper(self, library, fndesc, env, call_helper):
        pass

    def pack_value(self, builder, ty, value, ptr, align=None):
        stored = self.data_model_manager[ty].as_data(builder, value)
        _note_class(builder.store(stored, ptr, align=align), ptr)

    def unpack_value(self, builder, ty, ptr, align=None):
        value = super().unpack_value(builder, ty, ptr, align)
        if isinstance(value, ir.LoadInstr):
            _note_class(value, ptr)
        return value


def _note_class(access: ir.Instruction, pointer: ir.Value) -> None:
    """Tell LLVM of which class of places an access is: it is no access of any other class.

    Each field of a record is one, as are the items of all arrays of a type. So what is stored into
    an array, whatever its index, is no reason to load fields again. See "tbaa metadata" in LLVM's
    language reference.
    """
    name = getattr(pointer, "field", f"items {pointer.type.pointee}")
    module, first = access.module, ir.Constant(ir.IntType(64), 0)
    root = module.add_metadata(["pulpsim"])
    kind = module.add_metadata([name, root, first])
    access.set_metadata("tbaa", module.add_metadata([kind, kind, first]))


def get_record_member(builder, record, offset, typ):
    """Numba's, and the pointer knows of which field it is.

    Records of one size are not told apart: they need not be.
    """
    pointer = _get_record_member(builder, record, offset, typ)
    pointer.field = f"{offset} of {record.type.pointee.count}"
    return pointer


_get_record_member = cgutils.get_record_member


class RememberingTyping(Context):
    """Numba's typing, which finds out once what an operator or builtin makes of its operands."""

    def __init__(self):
        super().__init__()
        self.resolved: dict[Any, Signature] = {}

    def resolve_function_type(self, func, args, kws):
        if not isinstance(func, types.Function) or kws:
            return super().resolve_function_type(func, args, kws)
        key = func, args
        if key not in self.resolved:
            result = super().resolve_function_type(func, args, kws)
            if result is None:
                return None
            self.resolved[key] = result
        return self.resolved[key]


def alloca_once(builder, ty, size=None, name="", zfill=False):
    """Numba's, but for zeros: it fills every variable of an inlined function on the way in."""
    if isinstance(size, int):
        size = ir.Constant(cgutils.intp_t, size)
    with builder.goto_entry_block():
        pointer = builder.alloca(ty, size=size, name=name)
    if zfill:
        builder.store(pointer.type.pointee(None), pointer)
    return pointer


def replace_target() -> None:
    """Let Numba collect text from now on; before it compiles anything."""
    cgutils.alloca_once = alloca_once
    cgutils.get_record_member = get_record_member
    rtsys.initialize = lambda context: None  # nothing is allocated in step functions
    cpu_target._toplevel_typing_context = RememberingTyping()
    cpu_target._toplevel_target_context = TextContext(cpu_target.typing_context, "cpu")

"""Compiles a unit to an object file: Numba writes the functions down, LLVM optimises them once.

Numba by itself optimises every function with all that it calls, and makes machine code of each.
Here its libraries only collect text; the text of a whole unit is optimised and translated once.
To be imported in a process of its own, before Numba compiles anything: it replaces its target.
"""

from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils, codegen, cpu, typing
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.typing.templates import Signature

from soc.linking import Link, Unit


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
        return 1  # nobody calls it in this process

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


class RememberingTyping(typing.Context):
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


cgutils.alloca_once = alloca_once
rtsys.initialize = lambda context: None  # nothing is allocated in step functions
cpu_target._toplevel_typing_context = RememberingTyping()
cpu_target._toplevel_target_context = TextContext(cpu_target.typing_context, "cpu")

from isa.jitable import compile_as  # noqa: E402
from soc import chip_types, step_types  # noqa: E402
from soc.links import float_links  # noqa: E402
from soc.step import Step  # noqa: E402

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
for _link in float_links:
    compile_as(_link.step_function, _link)


def compile_unit(unit: Unit) -> bytes:
    """Return the object file of a unit."""
    step_types.building = unit
    chip_types.constants.update(unit.constants)
    step_types.register_meanings()
    linked: dict[str, None] = {}
    with global_compiler_lock:
        for link in unit.links.values():
            compiled = _compiled(link)
            linked |= dict.fromkeys(_texts(compiled.library))
            linked |= dict.fromkeys(_entries(link, compiled.fndesc))
        module = _optimised(linked, unit.links.values())
        machine = cpu_target.target_context.codegen()._tm
        return module.as_bitcode() if unit.is_bitcode else machine.emit_object(module)


def _compiled(link: Link) -> Any:
    """What Numba makes of a link's function."""
    function = link.step_function
    made = function if isinstance(function, Step) else Step(function)
    takes = tuple(step_types.numba_type(kind) for kind in link.takes)
    made.dispatcher.compile(step_types.numba_type(link.returns)(*takes))
    return made.dispatcher.overloads[takes]


def _texts(library: TextLibrary) -> Iterable[str]:
    """The texts of a library and of all that it calls."""
    found, waiting = {library: None}, [library]
    while waiting:
        callees = waiting.pop().callees.keys() - found.keys()
        found |= dict.fromkeys(callees)
        waiting += callees
    return (text for each in found for text in each.texts)


def _entries(link: Link, described: Any) -> Iterable[str]:
    """The functions under the link's symbols: for other units, and for Python."""
    convention = cpu_target.target_context.call_conv
    kind = convention.get_function_type(described.restype, described.argtypes)
    yield _forward(link.symbol, kind, kind, described)
    if link.is_for_python:
        word = ir.IntType(64)
        returns = ir.VoidType() if link.returns is None else word
        yield _forward(
            link.python_symbol, ir.FunctionType(returns, [word] * len(link.takes)), kind, described
        )


def _forward(
    symbol: str, kind: ir.FunctionType, callee_kind: ir.FunctionType, described: Any
) -> str:
    """The text of a function that calls another with its own arguments, or with words."""
    module = ir.Module(symbol)
    callee = ir.Function(module, callee_kind, described.mangled_name)
    entry = ir.Function(module, kind, symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    if kind is callee_kind:
        builder.ret(builder.call(callee, entry.args))
        return str(module)
    result, error = (builder.alloca(each.pointee) for each in callee_kind.args[:2])
    arguments = [
        builder.inttoptr(word, wanted) if isinstance(wanted, ir.PointerType) else word
        for word, wanted in zip(entry.args, callee_kind.args[2:], strict=True)
    ]
    builder.call(callee, [result, error, *arguments])
    if isinstance(kind.return_type, ir.VoidType):
        builder.ret_void()
    else:
        value = builder.load(result)
        builder.ret(
            value if value.type == kind.return_type else builder.zext(value, kind.return_type)
        )
    return str(module)


def _optimised(texts: Iterable[str], links: Iterable[Link]) -> llvm.ModuleRef:
    """Optimise all texts as one."""
    machine = cpu_target.target_context.codegen()._tm
    modules = [llvm.parse_assembly(text) for text in texts]
    while len(modules) > 1:  # in pairs: it takes as long as what is there is large
        for module, other in zip(modules[::2], modules[1::2], strict=False):
            module.link_in(other)
        modules = modules[::2]
    module = modules[0]
    module.data_layout = str(machine.target_data)
    module.triple = machine.triple
    entries = {symbol for link in links for symbol in (link.symbol, link.python_symbol)}
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and each.name not in entries:
            each.linkage = "internal"
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    return module

"""Compiles a unit to an object file: Numba writes the functions down, LLVM optimises them once.

To be imported in a process of its own, before Numba compiles anything: it replaces its target
(soc.aot.numba_target).
"""

from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from soc.aot.numba_internals import cpu_target, global_compiler_lock
from soc.aot.numba_target import TextLibrary, replace_target
from soc.aot.unit import Link, Unit

replace_target()

from isa.jitable import compile_as  # noqa: E402
from soc.aot import numba_chip, numba_steps  # noqa: E402
from soc.aot.units import float_links  # noqa: E402
from soc.prelude.step import Step  # noqa: E402

cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
for _link in float_links:
    compile_as(_link.step_function, _link)


def compile_unit(unit: Unit) -> bytes:
    """Return the object file of a unit."""
    numba_steps.building = unit
    numba_chip.constants.update(unit.constants)
    numba_steps.register_meanings()
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
    takes = tuple(numba_steps.numba_type(kind) for kind in link.takes)
    made.dispatcher.compile(numba_steps.numba_type(link.returns)(*takes))
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

"""The step functions of a unit as superblocks take them in: inlined into each other, once for all.

Of the meanings of instructions a superblock has a few: these are inlined when it is known which.
What is rare is called, not inlined (`noinline`); its bodies are linked to what still calls them
when all else is translated.
"""

import pickle
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm

from soc.aot.cache_file import keep, kept
from soc.jit.edit_llvm import calling_cold, declaring, with_scopes

KEPT = 32
"""Templates kept; the oldest make room."""

MEANINGS = "_ZN3isa"
"""What the symbols of what instructions mean begin with: the functions of package `isa`."""


class Template(NamedTuple):
    """LLVM's bitcode of the step functions.

    steps    what a superblock calls: to be inlined, with the meanings that it comes to
    rare     what these call that is not inlined
    """

    steps: bytes
    rare: bytes


def template_of(unit_file: Path, machine: llvm.TargetMachine) -> Template:
    """The template of a unit, kept beside its folder."""
    folder = unit_file.parent
    file = folder.parent / f"template-{folder.name}"
    content = kept(file)
    if content is None:
        content = pickle.dumps(prepared(unit_file.read_bytes(), machine))
        keep(file, content, KEPT)
    found: Template = pickle.loads(content)
    return found


def prepared(unit: bytes, machine: llvm.TargetMachine) -> Template:
    """Make the template of a unit's bitcode.

    What is inlined into every superblock is inlined once then.
    """
    module = llvm.parse_bitcode(unit)
    rare, meanings = set(), set()
    for each in defined(module):
        if not is_step(each):
            each.linkage = "internal"
        if any(b"noinline" in text for text in each.attributes):
            rare.add(each.name)
            each.add_function_attribute("cold")
        elif each.name.startswith(MEANINGS):
            meanings.add(each.name)
        else:
            each.add_function_attribute("alwaysinline")
    inline(module, machine)
    for each in defined(module):
        if each.name in meanings:
            each.add_function_attribute("alwaysinline")
    text = calling_cold(str(module))
    steps = llvm.parse_assembly(declaring(text, rare))
    leave_out_uncalled(steps, machine)
    return Template(bytes(steps.as_bitcode()), _of_rare(text, rare, machine))


def _of_rare(text: str, rare: set[str], machine: llvm.TargetMachine) -> bytes:
    module = llvm.parse_assembly(text)
    for each in defined(module):
        each.linkage = "external" if each.name in rare else "internal"
    inline(module, machine)
    return bytes(llvm.parse_assembly(with_scopes(str(module))).as_bitcode())


def is_step(function: llvm.ValueRef) -> bool:
    """Is this what superblocks call? For Python each step has another symbol, too: not needed."""
    return function.name.startswith("pulpsim_") and not function.name.endswith("_c")


def defined(module: llvm.ModuleRef) -> list[llvm.ValueRef]:
    """The functions of a module that have a body there."""
    return [each for each in module.functions if not each.is_declaration]


def builder(machine: llvm.TargetMachine) -> llvm.PassBuilder:
    """What runs LLVM's passes."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.slp_vectorization = False  # for without_forgotten
    return llvm.create_pass_builder(machine, tuning)


def inline(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Inline what is to be inlined always, and leave out what nothing calls then."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.run(module, builder(machine))


def leave_out_uncalled(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Leave out functions that nothing calls any more."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder(machine))

"""Translates superblocks in a process of its own: python -m soc.jit.compile_worker

What to translate comes as JSON on standard input: the unit of the step functions, and by the name
of its file each superblock's text. A simulation does not wait for it; it takes what is there.
"""

import fcntl
import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path

import llvmlite.binding as llvm

from soc.aot.cache_file import keep
from soc.aot.unit import require
from soc.engine.interpreter import generated_unit
from soc.host.cache_folder import cache_folder
from soc.host.child_process import end_with, read_order
from soc.jit.edit_llvm import calling_cold, with_scopes, without_forgotten

KEPT = 16384
"""Superblocks kept; the oldest make room."""

LOCK = "superblocks-{}.lock"
"""In the folder where machine code is kept: one such process a processor at the most."""


def main() -> None:
    job = read_order()
    end_with(sys.stdin.fileno())
    for option, value in OPTIONS.items():
        llvm.set_option("", f"-{option}={value}")
    with ExitStack() as turn:
        if take_turn(turn, cache_folder(), os.cpu_count() or 1, job["waits"]):
            os.nice(0 if job["waits"] else 10)
            build(job)


def take_turn(turn: ExitStack, folder: Path, most: int, waits: bool) -> bool:
    """Be one of at most so many processes that translate for a folder, until `turn` is closed.

    waits    for one of the others, if there are so many already; else False is returned
    """
    for number in range(most):
        lock = turn.enter_context((folder / LOCK.format(number)).open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    if waits:
        fcntl.flock(lock, fcntl.LOCK_EX)
    return waits


def build(job: dict) -> None:
    """Translate the superblocks of a job whose machine code is not there yet."""
    unit = generated_unit(job["unit"])
    require((unit,))
    assert unit.file
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        codemodel="jitdefault",
        jit=True,
    )
    template = prepared(unit.file.read_bytes(), machine)
    for file, text in job["superblocks"].items():
        if not Path(file).exists():
            keep(Path(file), translate(text, template, machine), KEPT)


def prepared(steps: bytes, machine: llvm.TargetMachine) -> bytes:
    """Return the bitcode of the step functions, with what they call inlined into each.

    What is inlined into every superblock is inlined once then.
    """
    module = llvm.parse_bitcode(steps)
    for each in module.functions:
        if not each.is_declaration:
            is_apart = any(b"noinline" in text for text in each.attributes)
            each.add_function_attribute("cold" if is_apart else "alwaysinline")
    _inline(module, _builder(machine))
    return bytes(module.as_bitcode())


def translate(text: str, template: bytes, machine: llvm.TargetMachine) -> bytes:
    """Return the object file of a superblock: the step functions are inlined into its text.

    template    these functions, as `prepared` returns them

    Empty if it cannot be translated.
    """
    module = llvm.parse_assembly(text)
    module.link_in(llvm.parse_bitcode(template))
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and not each.name.startswith("superblock_"):
            each.linkage = "internal"
    builder = _builder(machine)
    _inline(module, builder)
    before = ""
    for _ in range(ROUNDS):
        text = _PREDECESSORS.sub("", str(module))
        if text == before:  # the last round has found nothing more, and so would the next one
            break
        before = text
        module = llvm.parse_assembly(with_scopes(calling_cold(text)))
        for function in module.functions:
            if function.name.startswith("superblock_"):
                builder.getFunctionPassManager().run(function, builder)
        _leave_out_uncalled(module, builder)
    builder.getModulePassManager().run(module, builder)
    text = without_forgotten(str(module))
    return machine.emit_object(llvm.parse_assembly(text)) if text else b""


def _builder(machine: llvm.TargetMachine) -> llvm.PassBuilder:
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.slp_vectorization = False  # for without_forgotten
    return llvm.create_pass_builder(machine, tuning)


def _inline(module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.run(module, builder)


_PREDECESSORS = re.compile("; preds = .*")
"""A remark of LLVM's, in an order that means nothing."""


def _leave_out_uncalled(module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    """Leave out functions that nothing calls any more."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)


OPTIONS = {
    "enable-tail-merge": "false",  # of jumps, see soc.jit.llvm_writer
    "dse-memoryssa-scanlimit": 4000,
    "dse-memoryssa-walklimit": 4000,
    "memdep-block-scan-limit": 4000,
    "memdep-block-number-limit": 4000,
    "gvn-max-num-deps": 1000,
    "memssa-check-limit": 4000,
    "earlycse-mssa-optimization-cap": 10000,
}
"""Of LLVM; most say how far it looks back for what is overwritten or known: to where a superblock
begins.
"""

ROUNDS = 4
"""What LLVM finds out of one instruction helps it with the next; more rounds find little, and with
one, loops run up to a tenth slower.
"""

if __name__ == "__main__":
    main()

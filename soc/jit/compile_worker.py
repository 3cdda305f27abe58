"""Translates superblocks in a process of its own: python -m soc.jit.compile_worker

What to translate comes as JSON on standard input: the unit of the step functions, and by the name
of its file each superblock's text. A simulation does not wait for it; it takes what is there.
"""

import fcntl
import os
import re
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import llvmlite.binding as llvm

from soc.aot.cache_file import keep
from soc.aot.unit import require
from soc.engine.interpreter import generated_unit
from soc.host.cache_folder import cache_folder
from soc.host.child_process import end_with, read_order
from soc.jit.edit_llvm import (
    calling_cold,
    defined_in,
    divided,
    merged,
    with_scopes,
    without_forgotten,
)
from soc.jit.step_template import Template, builder, inline, leave_out_uncalled, template_of

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
    template = template_of(unit.file, machine)
    missing = {file: text for file, text in job["superblocks"].items() if not Path(file).exists()}
    waiting = list(missing)
    while waiting:
        files, waiting = waiting[:TOGETHER], waiting[TOGETHER:]
        texts = [missing[file] for file in files]
        for file, text in zip(files, inlined(texts, template, machine), strict=True):
            keep(Path(file), translate(text, template, machine), KEPT)


def inlined(texts: list[str], template: Template, machine: llvm.TargetMachine) -> list[str]:
    """The texts of superblocks with the step functions inlined.

    The template is read once for all of them: that takes longer than what is done with it.
    """
    module = llvm.parse_assembly(merged(texts))
    module.link_in(llvm.parse_bitcode(template.steps))
    _hide(module.functions)
    inline(module, machine)
    own = [{name for name in defined_in(text) if name.startswith(SUPERBLOCK)} for text in texts]
    return list(divided(str(module), own))


def translate(text: str, template: Template, machine: llvm.TargetMachine) -> bytes:
    """Return the object file of a superblock, from its text with the step functions inlined.

    Empty if it cannot be translated.
    """
    before = ""
    for _ in range(ROUNDS):
        text = _PREDECESSORS.sub("", text)
        if text == before:  # the last round has found nothing more, and so would the next one
            break
        before = text
        module = llvm.parse_assembly(with_scopes(calling_cold(text)))
        passes = builder(machine)
        for function in module.functions:
            if function.name.startswith(SUPERBLOCK):
                passes.getFunctionPassManager().run(function, passes)
        leave_out_uncalled(module, machine)
        text = str(module)
    module.link_in(llvm.parse_bitcode(template.rare))
    _hide((*module.functions, *module.global_variables))  # what is rare takes these, too
    leave_out_uncalled(module, machine)
    passes.getModulePassManager().run(module, passes)
    text = without_forgotten(str(module))
    return machine.emit_object(llvm.parse_assembly(text)) if text else b""


def _hide(symbols: Iterable[llvm.ValueRef]) -> None:
    """Let other machine code see the superblocks alone."""
    for each in symbols:
        if not each.is_declaration and not each.name.startswith(SUPERBLOCK):
            each.linkage = "internal"


_PREDECESSORS = re.compile("; preds = .*")
"""A remark of LLVM's, in an order that means nothing."""

SUPERBLOCK = "superblock_"
"""What the symbols of superblocks begin with."""

TOGETHER = 8
"""Superblocks into which the step functions are inlined at once: before the first is translated."""

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

ROUNDS = 2
"""What LLVM finds out of one instruction helps it with the next; a third round changes no machine
code, and with one, loops run up to a tenth slower.
"""

if __name__ == "__main__":
    main()

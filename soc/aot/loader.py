"""Object files loaded into this process, by LLVM's run-time linker."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm


@cache
def _target() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


def load(file: Path) -> Any:
    """Load an object file: see load_objects."""
    return load_objects([file.read_bytes()])


def load_objects(codes: Iterable[bytes]) -> Any:
    """Load object code: its symbols have addresses then, as get_function_address tells.

    They have them as long as what is returned is there. What it calls of other object files has to
    be defined before. No two may have the same symbol.
    """
    machine = _target().create_target_machine(codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)  # which ends the machine
    for code in codes:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def define(symbol: str, address: int) -> None:
    """Let object files that are loaded from now on find a symbol."""
    llvm.add_symbol(symbol, address)

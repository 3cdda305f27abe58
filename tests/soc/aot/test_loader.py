"""Loaded machine code: it goes with what was returned for it, and nothing else does."""

import ctypes

import llvmlite.binding as llvm

from soc.aot.loader import load_objects

TEXT = "define i64 @answer() {{ ret i64 {} }}"


def machine_code(number: int) -> bytes:
    """An object file with a function that returns this number."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    return machine.emit_object(llvm.parse_assembly(TEXT.format(number)))


def answer(code: object) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(code.get_function_address("answer"))()


def test_what_is_loaded_by_itself_goes_by_itself() -> None:
    loaded = [load_objects([machine_code(number)]) for number in range(8)]
    assert [answer(code) for code in loaded] == list(range(8))
    del loaded[::2]
    loaded.append(load_objects([machine_code(8)]))
    assert [answer(code) for code in loaded] == [1, 3, 5, 7, 8]

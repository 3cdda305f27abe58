"""The step functions as superblocks take them in."""

import llvmlite.binding as llvm
import pytest

from soc.jit import step_template
from soc.jit.step_template import defined, prepared, template_of

UNIT = """
@table = internal constant i64 5
define i32 @pulpsim_steps_go(ptr %ret, i64 %x) {
  %y = call i64 @_ZN3soc4part(i64 %x)
  %z = call i64 @_ZN3isa3add(i64 %y)
  %w = call fastcc i64 @_ZN3soc4rare(i64 %z)
  store i64 %w, ptr %ret
  ret i32 0
}
define i32 @pulpsim_steps_go_c(ptr %ret, i64 %x) {
  %y = call i32 @pulpsim_steps_go(ptr %ret, i64 %x)
  ret i32 %y
}
define internal i64 @_ZN3soc4part(i64 %x) {
  ret i64 %x
}
define i64 @_ZN3isa3add(i64 %x) {
  %y = add i64 %x, 1
  ret i64 %y
}
define internal fastcc i64 @_ZN3soc4rare(i64 %x) noinline {
  %y = load i64, ptr @table
  %z = call i64 @_ZN3isa3add(i64 %y)
  ret i64 %z
}
"""


@pytest.fixture(scope="module")
def machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine()


def names(bitcode: bytes) -> set[str]:
    """The functions that a module has a body of."""
    return {each.name for each in defined(llvm.parse_bitcode(bitcode))}


def test_meanings_stay_and_what_is_rare_is_apart(machine: llvm.TargetMachine) -> None:
    made = prepared(llvm.parse_assembly(UNIT).as_bitcode(), machine)
    assert names(made.steps) == {"pulpsim_steps_go", "_ZN3isa3add"}
    assert names(made.rare) == {"_ZN3soc4rare"}
    both = llvm.parse_bitcode(made.steps)
    both.link_in(llvm.parse_bitcode(made.rare))
    both.verify()
    assert not any(each.is_declaration for each in both.functions)


def test_a_template_is_made_once(tmp_path, machine, monkeypatch) -> None:
    file = tmp_path / "steps-1" / "code.o"
    file.parent.mkdir()
    file.write_bytes(llvm.parse_assembly(UNIT).as_bitcode())
    made = template_of(file, machine)
    assert [path.name for path in tmp_path.glob("template-*")] == ["template-steps-1"]

    monkeypatch.setattr(step_template, "prepared", None)
    assert template_of(file, machine) == made

"""What LLVM is told of a superblock: arrays do not overlap, some words are not to be written."""

import llvmlite.binding as llvm
import numpy as np
import pytest

from soc.chip.state import ARRAYS
from soc.core.deferred_state import FORGOTTEN
from soc.jit.edit_llvm import (
    ENTRY,
    TOUCHED,
    declaring,
    defined_in,
    divided,
    merged,
    with_scopes,
    without_forgotten,
)
from soc.prelude import trace_points

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def function(body: str) -> str:
    """A function with the chip's table, which knows where its harts and fetch are."""
    lines = ["define i64 @f(i64 %chip, i1 %c) {", "%table = inttoptr i64 %chip to ptr"]
    for name in ("harts", "fetch"):
        entry = ENTRY * list(ARRAYS).index(name)
        lines += [
            f"%{name}_entry = getelementptr i8, ptr %table, i64 {entry}",
            f"%{name}_word = load i64, ptr %{name}_entry, align 8, !invariant.load !0",
            f"%{name} = inttoptr i64 %{name}_word to ptr",
        ]
    return "\n".join([*lines, body, "}", "!0 = !{}"])


def optimised(text: str) -> str:
    machine = llvm.Target.from_default_triple().create_target_machine()
    module = llvm.parse_assembly(text)
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return str(module)


READ_TWICE = function("""
    %place = getelementptr i8, ptr %harts, i64 8
    %one = load i64, ptr %place
    store i64 7, ptr %fetch
    %two = load i64, ptr %place
    %sum = add i64 %one, %two
    ret i64 %sum
""")


def test_what_writes_to_another_array_is_no_reason_to_read_one_again() -> None:
    assert optimised(READ_TWICE).count("= load i64") == 4
    assert optimised(with_scopes(READ_TWICE)).count("= load i64") == 3


def test_what_writes_to_the_same_array_is() -> None:
    same = READ_TWICE.replace("ptr %fetch\n", "ptr %other\n").replace(
        "%one =", "%other = getelementptr i64, ptr %harts, i64 %chip\n    %one ="
    )
    assert optimised(with_scopes(same)).count("= load i64") == 3  # of which one of the table


def test_a_call_that_touches_notes_alone_is_no_reason_to_read_an_array_again() -> None:
    symbol = "_ZN3soc7prelude12trace_points12record_apartB3v15"
    call = READ_TWICE.replace("store i64 7, ptr %fetch", f'call void @"{symbol}"(i64 %chip)')
    text = f'declare void @"{symbol}"(i64)\n{call}'
    other = text.replace("record_apart", "another_one_")

    assert optimised(with_scopes(text)).count("= load i64") == 2
    assert optimised(with_scopes(other)).count("= load i64") == 3


def test_what_is_said_to_touch_notes_alone_does(monkeypatch: pytest.MonkeyPatch) -> None:
    touched = []

    class Watched:
        def __getattr__(self, name: str) -> np.ndarray:
            touched.append(name)
            array = np.zeros(8, ARRAYS[name])
            if name == "recorder":  # everything is wanted
                array["kinds"] = array["harts"] = array["cycles"] = np.uint64(-1 % 2**64)
            return array

    for name in ("record", "record_if"):
        monkeypatch.setattr(trace_points, name, getattr(trace_points, name).function)
    trace_points.record_apart.function(Watched(), *range(7))

    assert set(touched) == set(TOUCHED)


def test_what_is_forgotten_is_not_written_nor_what_came_before() -> None:
    text = function(f"""
    store i64 7, ptr %harts
    store i64 8, ptr %fetch
    store i64 {FORGOTTEN}, ptr %harts
    ret i64 0
    """)
    stores = [
        line.split(",")[0].strip()
        for line in without_forgotten(optimised(with_scopes(text))).splitlines()
        if " store " in line
    ]
    assert stores == ["store i64 8"]


@pytest.mark.parametrize("kind", ["i64", "i32"])
def test_a_text_in_which_what_is_forgotten_has_become_something_else_is_not_used(kind: str) -> None:
    word = FORGOTTEN if kind == "i64" else FORGOTTEN & 0xFFFFFFFF
    text = function(f"""
    %either = select i1 %c, {kind} {word}, {kind} 1
    store {kind} %either, ptr %harts
    ret i64 0
    """)
    assert without_forgotten(text) == ""


CALLING = """@row_{row} = constant [2 x i8] c"\\01\\02"
@config = constant i64 3
declare i64 @step(i64)
define internal i64 @apart(i64 %x) noinline {{
  ret i64 %x
}}
define i64 @{name}(i64 %x) {{
  %y = call i64 @step(i64 %x)
  %z = call i64 @apart(i64 %y)
  %r = load i8, ptr @row_{row}
  ret i64 %z
}}"""


def test_a_module_of_several_has_once_what_they_share_and_is_divided_again() -> None:
    texts = [CALLING.format(name=name, row=row) for name, row in (("a", 1), ("b", 2), ("c", 1))]
    module = llvm.parse_assembly(merged(texts))
    module.verify()
    assert sorted(each.name for each in module.global_variables) == ["config", "row_1", "row_2"]
    assert defined_in(str(module)) == {"a", "b", "c", "apart"}

    parts = [*divided(str(module), [{"a", "c"}, {"b"}])]
    assert [defined_in(part) for part in parts] == [{"a", "c", "apart"}, {"b", "apart"}]
    for part in parts:
        llvm.parse_assembly(part).verify()


def test_a_body_is_left_to_another_module() -> None:
    text = declaring(CALLING.format(name="a", row=1), {"apart"})
    module = llvm.parse_assembly(text)
    assert defined_in(text) == {"a"}
    assert module.get_function("apart").is_declaration
    other = llvm.parse_assembly("define i64 @apart(i64 %x) {\n  ret i64 7\n}\n")
    module.link_in(other)
    assert not module.get_function("apart").is_declaration

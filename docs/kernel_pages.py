"""The page of each kernel, for all element types, from its declaration and runs; and the list."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from docs.kernel_equations import EQUATIONS
from docs.markdown import code, page, table, text_block
from pulpsim.commands.inspect.kernels import EVERYWHERE, paragraphs, shown_type
from soc.config.validation import shown_value
from trainlib.launch import checked, launch
from trainlib.primitive.operator import Family
from trainlib.registry import KERNELS

ELEMENTS = ("f32", "f16", "bf16")
ROLES = {"in": "read", "out": "written", "inout": "read and overwritten"}


def kernel_pages() -> Iterator[tuple[str, str]]:
    """(file in docs/, text) of each kernel's page, and of the list."""
    for stem in stems():
        yield f"kernels/{stem}.md", kernel_page(stem)
    yield "kernels/list.md", list_page()


def stems() -> dict[str, list[str]]:
    """Kernels by their name without the element type, which comes last in it."""
    by_stem: dict[str, list[str]] = {}
    for name in KERNELS:
        by_stem.setdefault(name.rpartition("_")[0], []).append(name)
    return {
        stem: sorted(names, key=lambda name: ELEMENTS.index(name.rpartition("_")[2]))
        for stem, names in by_stem.items()
    }


@cache
def cycles(name: str) -> tuple[int, int, int]:
    """Cycles of the computation, of the whole run, and multiply-adds, at the page's shape.

    raises    RuntimeError if the result is wrong
    """
    _, report = launch(name, dict(EQUATIONS[name][1]))
    if not report.is_correct:
        raise RuntimeError(f"{name}: its result is wrong")
    return report.cycles, report.result.cycles, report.macs


def list_page() -> str:
    """All kernels, by folder of trainlib."""
    folders: dict[str, dict[str, list[str]]] = {}
    for stem, names in stems().items():
        folder = KERNELS[names[0]].arguments.__module__.split(".")[1]
        folders.setdefault(folder, {})[stem] = names
    parts = []
    for folder, kernels in sorted(folders.items()):
        rows = [
            (f"[{stem}]({stem}.md)", types(names), code(EQUATIONS[names[0]][0]))
            for stem, names in kernels.items()
        ]
        parts.append(f"## {folder}\n\n{table(('kernel', 'types', 'computes'), rows)}")
    told = "A kernel's name ends with the type of its elements: `matmul_f32`, `matmul_bf16`.\n"
    toctree = "\n".join(["```{toctree}", ":hidden:", "", *stems(), "```"])
    return page("All kernels", told, *parts, toctree)


def types(names: list[str]) -> str:
    """The element types of kernels of one stem."""
    return ", ".join(name.rpartition("_")[2] for name in names)


def kernel_page(stem: str) -> str:
    """What it computes, its tensors, its arguments, its cycles, for each element type."""
    names = stems()[stem]
    family, (equation, shape) = KERNELS[names[0]], EQUATIONS[names[0]]
    arguments = [
        (code(argument), shown_type(field.annotation), default_of(field) + only(names, argument))
        for argument, field in family.arguments.model_fields.items()
    ]
    meaning = "\n\n".join([*paragraphs(family), *everywhere(family)])
    return page(
        ", ".join(names),
        text_block(equation),
        "## Tensors\n",
        "In L2, row-major, here of the shapes in the example:\n",
        table(("tensor", "is", "shape", "type"), tensors(names, shape)),
        "## Arguments\n",
        text_block(meaning.strip()),
        table(("argument", "value", "default"), arguments),
        "## Example\n",
        f"```toml\n{config(names[0], shape)}```\n",
        "On `pulp`, eight cores, caches cold; the run has boot, DMA and exit, too:\n",
        timing(names),
    )


def tensors(names: list[str], shape: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """A row for each tensor; its types are those of the kernels, in their order."""
    of = [KERNELS[name].tensors(checked(name, shape)) for name in names]
    return [
        (
            code(tensor),
            ROLES[t.role],
            code(json.dumps(t.shape)),
            ", ".join(dict.fromkeys(each[tensor].dtype.name for each in of)),
        )
        for tensor, t in of[0].items()
        if t.role in ROLES
    ]


def everywhere(family: Family) -> Iterator[str]:
    """The arguments that kernels have in common, if this one has them."""
    fields = family.arguments.model_fields
    yield "\n".join(f"{name:<10}{text}" for name, text in EVERYWHERE.items() if name in fields)


def default_of(field: Any) -> str:
    """The default of an argument, "required" or "chosen"."""
    if field.is_required():
        return "required"
    if field.default is None:
        return "chosen"
    is_list = isinstance(field.default, tuple)
    return code(json.dumps(field.default) if is_list else shown_value(field.default))


def only(names: list[str], argument: str) -> str:
    """Which element types have an argument, if not all have it."""
    having = [name for name in names if argument in KERNELS[name].arguments.model_fields]
    return "" if having == names else f", {types(having)} only"


def config(name: str, shape: Mapping[str, Any]) -> str:
    """A config that runs it."""
    lines = ["[program]", f'kernel = "{name}"']
    if shape:
        lines += ["[program.args]", *(f"{key} = {toml(value)}" for key, value in shape.items())]
    return "".join(f"{line}\n" for line in lines)


def toml(value: Any) -> str:
    """A value of a config."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def timing(names: list[str]) -> str:
    """Their cycles at that shape."""
    rows = []
    for name in names:
        computed, whole, macs = cycles(name)
        rate = f"{macs / computed:.2f}" if macs else ""
        rows.append((code(name), f"{computed:,}", rate, f"{whole:,}"))
    headings = "kernel", "cycles", "multiply-adds a cycle", "cycles of the run"
    return table(headings, rows)

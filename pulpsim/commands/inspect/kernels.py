"""pulpsim kernels: the kernels that a config's [program] can name, and the arguments of one."""

import inspect
from collections.abc import Iterator, Sequence
from textwrap import wrap
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from rich.console import Group

from pulpsim.cli.terminal import WIDTH, compact_table
from soc.config.validation import shown_value
from trainlib.primitive.arguments import CommonArguments, TiledArguments
from trainlib.primitive.operator import Family
from trainlib.registry import KERNELS, family_of

HINT = "pulpsim kernels NAME: its arguments, for [program.args]"

EVERYWHERE = {
    "cores": "cores of the team; not given: all of the chip",
    "seed": "of the random inputs",
    "tile": "sizes of the tiles that L2's tensors are cut into; what is missing is chosen",
    "buffers": "2: the DMA loads the next tile while this one is computed",
    "warm": "true: compute twice, and measure the second time, when caches are warm",
}
"""The arguments that kernels have in common."""

GENERAL = BaseModel, CommonArguments, TiledArguments
"""What says nothing of one kernel."""


def kernels_list() -> Group:
    """All kernels by name, those of a folder of trainlib together."""
    folders: dict[str, list[str]] = {}
    for name, family in KERNELS.items():
        _, folder, *_ = family.arguments.__module__.split(".")
        folders.setdefault(folder, []).append(name)
    lines = [line for folder, names in sorted(folders.items()) for line in _lines(folder, names)]
    return Group(*lines, "", HINT)


def _lines(folder: str, names: Sequence[str]) -> Iterator[str]:
    yield folder
    yield from wrap(" ".join(names), WIDTH, initial_indent="  ", subsequent_indent="  ")


def arguments_table(name: str) -> Group:
    """Every argument of a kernel: what it takes, and what it is if it is not given.

    raises    ConfigError if there is no such kernel
    """
    family = family_of(name)
    table = compact_table("argument", "value", "default", left=3)
    fields = family.arguments.model_fields
    for argument, field in fields.items():
        default = "required" if field.is_required() else shown_value(field.default)
        table.add_row(argument, shown_type(field.annotation), default.replace("None", "chosen"))
    common = [
        f"{argument:<10}{text}" for argument, text in EVERYWHERE.items() if argument in fields
    ]
    meaning = "\n\n".join(paragraphs(family))
    return Group(name, "", meaning, "", *common, "", table)


def shown_type(kind: Any) -> str:
    """What an argument may be, as a person says it: "integer", '"chw" | "hwc"', "2 integers"."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return shown_type(parts[0])
    if origin is Literal:
        return " | ".join(shown_value(part) for part in parts)
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(shown_type(p) for p in parts if p is not type(None)))
    if origin is tuple:
        count = "a list of" if parts[-1] is Ellipsis else str(len(parts))
        return f"{count} {shown_type(parts[0])}s"
    if origin is dict:
        return f"a table of {shown_type(parts[1])}s"
    if issubclass(kind, BaseModel):
        return "table"
    return {int: "integer", float: "number", bool: "true | false", str: "text"}[kind]


def paragraphs(family: Family) -> Iterator[str]:
    """What the classes of its arguments say, the most general first."""
    for model in reversed(family.arguments.__mro__):
        if issubclass(model, BaseModel) and model not in GENERAL and model.__doc__:
            yield inspect.cleandoc(model.__doc__)

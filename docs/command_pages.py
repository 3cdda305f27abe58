"""The pages of the command line and of config files, from Typer and the models."""

import inspect
from collections.abc import Iterator
from typing import Any

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from docs.markdown import code, page, table, text_block
from pulpsim.cli import run_config
from pulpsim.cli.run_config import RunConfig
from pulpsim.commands.app import app
from pulpsim.commands.inspect.kernels import shown_type
from pulpsim.commands.study import config as study_config
from pulpsim.commands.study.catalogue import STUDIES
from pulpsim.commands.study.config import StudyConfig
from pulpsim.commands.tune import config as tune_config
from pulpsim.commands.tune.config import LayerTable, TuneConfig
from soc.chip.spec import chip_names, load_chip
from soc.config.validation import shown_value


def command_pages() -> Iterator[tuple[str, str]]:
    """(file in docs/, text) of each page."""
    yield "reference/command-line.md", command_line()
    yield "reference/config-files.md", config_files()
    yield "reference/chip-fields.md", chip_fields()


def command_line() -> str:
    """Every command with its arguments and options."""
    return page(
        "Command line",
        "Every command exits with 2 for bad input, and says every mistake that it finds on a line "
        "of its own.\n",
        *commands_of(typer.main.get_command(app), "pulpsim"),
    )


def commands_of(command: Any, name: str) -> Iterator[str]:
    """A command, then those below it."""
    own = getattr(command, "commands", {})
    if not own:
        yield f"## {name}\n\n{command_help(command, name)}"
    for below, entry in own.items():
        yield from commands_of(entry, f"{name} {below}")


def command_help(command: Any, name: str) -> str:
    """What it does, and its options."""
    context = typer.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    rows = [
        (code(spelt(parameter)), getattr(parameter, "help", None) or "")
        for parameter in command.params
    ]
    text = f"{text_block(f'{name} {usage}')}\n{inspect.cleandoc(command.help or '')}\n"
    return f"{text}\n{table(('option', 'meaning'), rows)}" if rows else text


def spelt(parameter: Any) -> str:
    """-o, --output FILE."""
    metavar = parameter.metavar or ""
    if parameter.param_type_name == "argument":
        return metavar or parameter.name.upper()
    return f"{', '.join(parameter.opts)} {metavar}".strip()


def config_files() -> str:
    """The tables of config files, their keys, values and defaults."""
    layers = tables(LayerTable, "layers[].")
    return page(
        "Config files",
        "TOML. What a table does not know, it refuses. Options of the command line override it.\n",
        f"## pulpsim run\n\n{example(run_config)}\n{table(KEYS, tables(RunConfig))}",
        f"## pulpsim tune\n\n{example(tune_config)}\n{table(KEYS, [*tables(TuneConfig), *layers])}",
        f"## pulpsim study\n\n{example(study_config)}\n{table(KEYS, tables(StudyConfig))}",
        *(
            f"### {study.name}\n\n{study.question[0].upper()}{study.question[1:]}.\n\n"
            f"{table(('key', 'what', 'default'), arguments(study.arguments))}"
            for study in STUDIES.values()
        ),
    )


KEYS = "key", "value", "default"


def example(module: Any) -> str:
    """The example at the head of a module: its lines of TOML."""
    lines = inspect.cleandoc(module.__doc__).splitlines()
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("chip ="))
    end = next((n for n in range(start, len(lines)) if not lines[n].strip()), len(lines))
    return text_block(inspect.cleandoc("\n".join(["", *lines[start:end]])))


def tables(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """The keys of a model and of the tables in it."""
    for name, field in model.model_fields.items():
        key, kind = f"{prefix}{field.alias or name}", field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from tables(kind, f"{key}.")
        else:
            yield code(key), value_of(key, kind), default_of(field)


def value_of(key: str, kind: Any) -> str:
    """What a key may be, in words."""
    if key == "chip":
        return "a chip by name, a chip file, or a table of fields with a `base`"
    if kind is Any or "Any" in str(kind):
        return "a list of tables" if "tuple" in str(kind) else "a table"
    return shown_type(kind)


def default_of(field: Any) -> str:
    """A default as TOML would have it; "" for none."""
    default = field.default
    if default is PydanticUndefined or default is None or isinstance(default, BaseModel):
        return "required" if field.is_required() else ""
    return "" if default in ((), {}) else code(shown_value(default))


def arguments(model: type[BaseModel]) -> Iterator[tuple[str, str, str]]:
    """The arguments of a study."""
    for name, field in model.model_fields.items():
        default = field.default
        if isinstance(default, tuple):
            default = " ".join(str(v["kernel"] if isinstance(v, dict) else v) for v in default)
        elif default is PydanticUndefined or default is None:
            default = ""
        yield code(name), field.description or "", code(str(default))


def chip_fields() -> str:
    """Every field of pulp with its source; of the other chips, where they differ."""
    base = load_chip("pulp")
    rows = [
        (code(r["field"]), code(r["value"]), r["unit"], r["source"])
        for r in base.rows()
        if r["field"] not in TITLE
    ]
    own = {row["field"]: row["value"] for row in base.rows()}
    parts = []
    for name in chip_names():
        spec = load_chip(name)
        others = [
            (code(row["field"]), code(row["value"]), code(own[row["field"]]))
            for row in spec.rows()
            if row["value"] != own[row["field"]] and row["field"] not in TITLE
        ]
        if others:
            heading = f"## {name}\n\n{spec.description}\n"
            parts.append(f"{heading}\n{table(('field', 'value', 'of pulp'), others)}")
    fields = table(("field", "value", "unit", "source"), rows)
    return page("Fields of chips", f"## pulp\n\n{base.description}\n\n{fields}", *parts)


TITLE = "name", "description"

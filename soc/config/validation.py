"""TOML tables into frozen models; all mistakes at once, with file, key path, value and rule."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from soc.config.toml import ConfigError, Table, merged

LONGEST_VALUE = 60  # characters of a bad value that a message shows

KeyPath = tuple[str, ...]
Model = TypeVar("Model", bound=BaseModel)
ABSENT = object()


@dataclass(frozen=True)
class Layer:
    """A table and where it was written: later layers override earlier ones, key by key.

    prefix    where the table lies in its source, "chip." for the [chip] of a run
    """

    source: str
    table: Table
    prefix: str = ""


def validated(model: type[Model], layers: Sequence[Layer]) -> Model:
    """The model that the layers describe. Raises ConfigError with all their mistakes."""
    table: Table = {}
    for layer in layers:
        table = merged(table, layer.table)
    try:
        return model.model_validate(_with_tuples(table), strict=True)
    except ValidationError as error:
        raise ConfigError(_mistakes(model, layers, table, error)) from None


def _with_tuples(value: Any) -> Any:
    """TOML's arrays as the tuples that a frozen model holds."""
    if isinstance(value, dict):
        return {key: _with_tuples(entry) for key, entry in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _mistakes(
    model: type[BaseModel], layers: Sequence[Layer], table: Table, error: ValidationError
) -> list[str]:
    rules: dict[KeyPath, list[str]] = {}  # a value that fits no form of several breaks several
    for mistake in error.errors(include_url=False):
        path = _written_path(table, mistake["loc"])
        if mistake["type"] == "too_short" and _is_long_enough(_lookup(table, path), mistake):
            continue  # but for elements that are mistakes themselves
        prefix = _origin(layers, path).prefix
        rule = _rule_in_context(mistake, error) or _rule(
            _place(model, table, path), mistake["type"], mistake["msg"], prefix
        )
        rules.setdefault(path, []).append(rule)
    units = {key: field_note(field, "unit") for key, field in fields(model)}
    return [
        _line(layers, table, path, _either(broken), units.get(path))
        for path, broken in rules.items()
    ]


def _rule_in_context(mistake: Any, error: ValidationError) -> str:
    """How long a list has to be, or which forms a table has, if that is what is wrong.

    Of a list that is too short each missing element is a mistake.
    """
    *of, last = mistake["loc"] or ("",)
    if mistake["type"] == "too_long":
        return f"must be a list of {mistake['ctx']['max_length']}"
    if mistake["type"] == "too_short":
        return f"must be a list of at least {mistake['ctx']['min_length']}"
    if mistake["type"] == "union_tag_invalid":
        name = mistake["ctx"]["discriminator"].strip("'")
        tags = mistake["ctx"]["expected_tags"]
        return f'{name} = "{mistake["ctx"]["tag"]}": must be one of {tags}'
    if mistake["type"] == "union_tag_not_found":
        return f"{mistake['ctx']['discriminator'].strip(chr(39))}: missing"
    if mistake["type"] != "missing" or not isinstance(last, int):
        return ""
    missing = [each["loc"][-1] for each in error.errors() if [*each["loc"][:-1]] == of]
    return f"must be a list of {max(index for index in missing if isinstance(index, int)) + 1}"


def _is_long_enough(value: Any, mistake: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) >= mistake["ctx"]["min_length"]


def _either(rules: Sequence[str]) -> str:
    first, *others = dict.fromkeys(rules)
    return " or ".join([first, *(rule.removeprefix("must be ") for rule in others)])


def _line(layers: Sequence[Layer], table: Table, path: KeyPath, rule: str, unit: str | None) -> str:
    layer = _origin(layers, path)
    value = _lookup(table, path)
    key = layer.prefix + shown_path(path)
    if value is not ABSENT and not isinstance(value, dict):
        key += f" = {shown_value(value)}"
        rule += f" ({unit})" if unit else ""
    return f"{layer.source}: {key}: {rule}" if key else f"{layer.source}: {rule}"


def shown_value(value: Any) -> str:
    """A value as TOML writes it, shortened where it is long."""
    if isinstance(value, bool | str):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, int) and value.bit_length() > 64:
        text = hex(value)  # NOTE: Python refuses to write very long integers in decimal
    else:
        text = str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def shown_path(path: KeyPath) -> str:
    """A path as one writes it: layers[0].kernel."""
    return ".".join(path).replace(".[", "[")


def _lookup(table: Any, path: KeyPath) -> Any:
    for name in path:
        if isinstance(table, dict) and name in table:
            table = table[name]
        elif isinstance(table, list | tuple) and _is_table_in(table, index := name.strip("[]")):
            table = table[int(index)]
        else:
            return ABSENT
    return table


def _is_table_in(array: Sequence[Any], index: int | str) -> bool:
    """Is that an index of an array, and are there tables in it?"""
    is_index = str(index).isdecimal() and int(index) < len(array)
    return is_index and any(isinstance(each, dict) for each in array)


def _written_path(table: Table, location: tuple[int | str, ...]) -> KeyPath:
    """Where a mistake lies: pydantic's location without forms of a union and indices of values.

    The index of a table in an array is an element of its own, "[2]".
    """
    path: KeyPath = ()
    for number, name in enumerate(location):
        place = _lookup(table, path)
        if isinstance(place, list | tuple) and _is_table_in(place, name):
            path += (f"[{name}]",)
        elif not isinstance(place, dict):
            break
        elif name in place or not _is_form(place, path, number, location):
            path += (str(name),)
    return path


def _is_form(place: Table, path: KeyPath, number: int, location: tuple[int | str, ...]) -> bool:
    """Is it the form that a table in an array has, as "conv2d" of layers[0], and no key?"""
    in_array = bool(path) and path[-1].startswith("[")
    return in_array and number < len(location) - 1 and location[number] in place.values()


@dataclass(frozen=True)
class Place:
    """A table that stands by itself: the whole one, or the innermost of an array around a mistake.

    models    the forms that it may have
    path      of the mistake from there on
    prefix    where the table is
    """

    models: list[type[BaseModel]]
    path: KeyPath
    prefix: str = ""


def _place(model: type[BaseModel], table: Table, path: KeyPath) -> Place:
    models, start = [model], 0
    for number, name in enumerate(path, 1):
        if name.startswith("["):
            inside = _names(path[start : number - 1])
            forms = [form for each in models for form in _element_forms(each, inside)]
            value = _lookup(table, path[:number])
            is_table = isinstance(value, dict)
            models = [form for form in forms if is_table and _fits(form, value)] or forms
            start = number
    return Place(models, path[start:], f"{shown_path(path[:start])}." if start else "")


def _names(path: KeyPath) -> KeyPath:
    return tuple(name for name in path if not name.startswith("["))


def _element_forms(model: type[BaseModel], path: KeyPath) -> list[type[BaseModel]]:
    """What the tables of an array may be."""
    return [
        form for key, field in fields(model) if key == path for form in _models(field.annotation)
    ]


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for each in get_args(annotation) for model in _models(each)]


def _fits(form: type[BaseModel], table: Table) -> bool:
    """Has a table the words that tell this form from others, such as kind = "conv2d"?"""
    words = {
        name: get_args(field.annotation)
        for name, field in form.model_fields.items()
        if get_origin(field.annotation) is Literal
    }
    return all(table.get(name) in allowed for name, allowed in words.items() if name in table)


def _origin(layers: Sequence[Layer], path: KeyPath) -> Layer:
    """The last layer that wrote the path, or the nearest table around it."""
    for length in range(len(path), 0, -1):
        for layer in reversed(layers):
            if _lookup(layer.table, path[:length]) is not ABSENT:
                return layer
    return layers[0]


def _rule(place: Place, kind: str, message: str, prefix: str) -> str:
    path = place.path
    if kind == "extra_forbidden":
        return f"no such field; {_suggestion(place, prefix)}"
    if kind == "missing":
        return "missing"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return "must be a table"
    if kind == "value_error":
        return message.partition(", ")[2].removeprefix(f"{path[-1]}: " if path else "")
    if kind == "tuple_type":
        return "must be a list, such as [4, 2]"
    return message.replace("Input should be", "must be")


def fields(model: type[BaseModel], path: KeyPath = ()) -> Iterator[tuple[KeyPath, FieldInfo]]:
    """Every field that is no table itself, with the path of its key, in the model's order."""
    for name, field in model.model_fields.items():
        forms = get_args(field.annotation) or (field.annotation,)
        tables = [form for form in forms if isinstance(form, type) and issubclass(form, BaseModel)]
        if len(tables) == 1 and set(forms) <= {tables[0], NoneType}:
            yield from fields(tables[0], (*path, field.alias or name))
        else:
            yield (*path, field.alias or name), field


def field_note(field: FieldInfo, note: str) -> str:
    """The unit or the source that soc.prelude.field gave a field; "" if neither did."""
    extra = field.json_schema_extra
    return str(extra.get(note, "")) if isinstance(extra, dict) else ""


def _suggestion(place: Place, prefix: str) -> str:
    """Near names of the same table first, then of any table, else what the table holds."""
    path, prefix = place.path, prefix + place.prefix
    known = list(dict.fromkeys(key for model in place.models for key, _ in fields(model)))
    level = len(path) - 1
    here = sorted({key[level] for key in known if key[:level] == path[:-1] and len(key) > level})
    table = "".join(f"{name}." for name in path[:-1])
    near = [table + name for name in get_close_matches(path[-1], here, n=2)]
    near = near or [".".join(key) for key in known if get_close_matches(path[-1], key[-1:])][:3]
    if near:
        return f"did you mean {' or '.join(prefix + key for key in near)}?"
    name = (place.prefix + table).removesuffix(".") or "this table"
    return f"{name} has {', '.join(here)}"

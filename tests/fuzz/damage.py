"""Damage: bytes that are changed at random, and tables whose structure is."""

import copy
import datetime
import json
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

EXTREMES = (0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def nest(depth: int) -> list:
    """Lists inside of each other."""
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


INTEGERS = (0, 1, 2, 3, 7, 17, 255, 4096, 1 << 20, (1 << 31) - 1, 1 << 32, 1 << 53, 1 << 62)
INTEGERS += ((1 << 63) - 1, 1 << 64, 10**30, 10**400, 10**4000)
FLOATS = (0.5, -0.0, 1e-300, 1e300, math.nan, math.inf, -math.inf)
TEXTS = ("", " ", "0", "-", "x", "..", "/", "{", "%s", "a\0b", "\ud800", "\u202e", "\x1b[31m")
TEXTS += ("é" * 300, "x" * 100_000, "0x10", "1e9", "<b>", "auto", "pulp", "run.trace", "cv32e40p")
OTHERS = (None, True, False, [], {}, [[]], [None] * 3, {"": 0}, {"a": {"b": 1}}, [0] * 1000)
OTHERS += (nest(50), nest(500), datetime.date(1979, 5, 27))


def hostile(rng: random.Random) -> Any:
    """A value that belongs nowhere."""
    kind = rng.randrange(8)
    if kind < 3:
        return rng.choice(INTEGERS) * rng.choice((1, 1, -1))
    return copy.deepcopy(rng.choice((FLOATS, TEXTS, TEXTS, OTHERS, OTHERS)[kind - 3]))


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip bits, write extremes, cut, double or move a piece, one to eight times."""
    image = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(image) or 1)
        kind = rng.randrange(8)
        if kind < 2 and image:
            image[at] ^= 1 << rng.randrange(8)
        elif kind < 4:
            size = rng.choice((1, 2, 4, 8))
            value = rng.choice((*EXTREMES, rng.getrandbits(64), len(data) + rng.randrange(-9, 9)))
            order = rng.choice(("little", "big"))
            image[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, order)
        elif kind == 4:
            del image[at : at + rng.choice((1, 4, 100, len(image)))]
        elif kind == 5:
            image[at:at] = image[at : at + rng.randrange(200)]
        elif kind == 6:
            start = rng.randrange(len(data) or 1)
            image[at : at + 64] = data[start : start + 64]
        else:
            image[at:at] = rng.choice((b"[" * 50_000, b"9" * 5000, b"\0", b"\xff", b'"', b"\n{"))
    return bytes(image)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key or index of it."""
    waiting = [tree]
    while waiting:
        container = waiting.pop()
        keys = range(len(container)) if isinstance(container, list) else list(container)
        for key in keys:
            yield container, key
            if isinstance(container[key], dict | list):
                waiting.append(container[key])


def _scaled(value: Any, rng: random.Random) -> Any:
    """A near value of the same type, or a text of it, or a list."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        changes = (value + 1, value - 1, -value, value << rng.randrange(40), value >> 1, str(value))
        return rng.choice((*changes, value % 1000 + 0.0, [value]))
    if isinstance(value, float):
        return rng.choice((-value, value * 1e300, int(value) if math.isfinite(value) else 0))
    if isinstance(value, str):
        return rng.choice((value[:-1], value * 2, value.upper(), [value], value + "\n", len(value)))
    if isinstance(value, list):
        others = (value * 2, value[:1], value[::-1], value * 100)
        return rng.choice((*others, dict.fromkeys("ab", value)))
    if isinstance(value, dict):
        return rng.choice(([value], list(value), {**value, "more": 1}))
    return [value]


def damaged_tree(tree: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A table with values of other types or sizes, without or with other keys, swapped."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = list(_places(tree))
        if not places:
            break
        container, key = rng.choice(places)
        kind = rng.randrange(8)
        if kind < 3:
            container[key] = hostile(rng)
        elif kind < 5:
            container[key] = _scaled(container[key], rng)
        elif kind == 5:
            del container[key]
        elif kind == 6 and isinstance(container, dict):
            container[rng.choice((*TEXTS[:13], f"{key}s", key[:-1]))] = container.pop(key)
        else:
            other, place = rng.choice(places)
            if isinstance(other, dict) and place in other or isinstance(other, list):
                container[key] = copy.deepcopy(rng.choice((other, hostile(rng))))
    return tree


def json_text(tree: Any) -> bytes:
    """As JSON, as far as it can say it."""
    return json.dumps(tree, default=str, indent=1).encode("utf-8", "surrogatepass")


def toml_text(tree: dict[str, Any]) -> bytes:
    """As TOML, tables in one line, as far as it can say it."""
    lines = (f"{_key(name)} = {_toml(value)}\n" for name, value in tree.items())
    return "".join(lines).encode("utf-8", "surrogatepass")


def _key(name: str) -> str:
    return json.dumps(str(name), ensure_ascii=False)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {_toml(v)}" for name, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool | None):
        return str(bool(value)).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def damaged_text(tree: dict[str, Any], text: Callable[[Any], bytes], rng: random.Random) -> bytes:
    """A table with damaged structure, written as text; of some, the text is damaged."""
    kind = rng.randrange(4)
    data = text(damaged_tree(tree, rng) if kind else tree)
    return damaged_bytes(data, rng) if kind == 0 or kind == 1 and rng.random() < 0.3 else data

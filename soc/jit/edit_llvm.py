"""Edits the text that LLVM prints of a module: here, and nowhere else, by regular expressions.

with_scopes tells LLVM that the chip's arrays do not overlap. What writes to one array is then no
reason to read another one again, nor to write what is overwritten before it is read. See "noalias
and alias.scope metadata" in LLVM's language reference. (Its "separate_storage" says the same, but
is lost at the first branch.) without_forgotten leaves out stores that are not to happen. declaring,
merged and divided move functions between modules.

How LLVM prints differs between versions: soc.aot.versions has those for which this is tested.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from soc.chip.state import ARRAYS
from soc.core.deferred_state import FORGOTTEN
from soc.prelude.trace_points import record_apart

_VALUE = r'(%"[^"]+"|%[-\w.$]+)'
_TABLE = re.compile(rf"\s*{_VALUE} = inttoptr i64 %(?:arg\.)?chip to ptr")
_ENTRY = re.compile(rf"\s*{_VALUE} = getelementptr [^%]*i8, ptr {_VALUE}, i64 (\d+)")
_LOAD = re.compile(rf"\s*{_VALUE} = load i64, ptr {_VALUE}, .*!invariant\.load")
_CAST = re.compile(rf"\s*{_VALUE} = inttoptr i64 {_VALUE} to ptr")
_WITHIN = re.compile(rf"\s*{_VALUE} = getelementptr [^%]*ptr {_VALUE},")
_ACCESS = re.compile(
    rf"\s*(?:{_VALUE} = load [^,]+, |store [^,]+, |(?:tail )?call void @llvm\.memset[^(]*\()"
    rf"ptr [^%]*{_VALUE}"
)
_NOTED = re.compile(r", !(?:noalias|alias\.scope) !\d+")

TOUCHED = "recorder", "trace"
"""The arrays that soc.prelude.trace_points.record_apart touches: what a superblock knows
of others remains."""
_PATH = f"{record_apart.function.__module__}.{record_apart.function.__name__}"
_MANGLED = "".join(f"{len(name)}{name}" for name in _PATH.split("."))
_TOUCHING = re.compile(rf'[^@]*call .*@"?_ZN{_MANGLED}')

ENTRY = 16
"""Bytes of an array's address and length in the table at Chip.address."""

FIRST = 1 << 20
"""Number of the first node of metadata: beyond those of any text."""


def with_scopes(text: str) -> str:
    """Add to each access to an array of the chip which it is, and which it is not.

    text    a module of LLVM, step functions inlined
    """
    names = list(ARRAYS)
    lines = list(_noted(text.splitlines(), names))
    scopes = [FIRST + 1 + 3 * number for number in range(len(names))]
    lines.append(f"!{FIRST} = distinct !{{!{FIRST}}}")
    for scope in scopes:
        others = ", ".join(f"!{other}" for other in scopes if other != scope)
        lines += [
            f"!{scope} = distinct !{{!{scope}, !{FIRST}}}",
            f"!{scope + 1} = !{{!{scope}}}",
            f"!{scope + 2} = !{{{others}}}",
        ]
    apart = ", ".join(
        f"!{scope}" for scope, name in zip(scopes, names, strict=True) if name not in TOUCHED
    )
    lines.append(f"!{FIRST - 1} = !{{{apart}}}")
    return "\n".join(lines)


def _noted(lines: Iterable[str], names: list[str]) -> Iterator[str]:
    """The lines, accesses with their scopes."""
    tables: set[str] = set()
    array: dict[str, int] = {}  # of the entry of the table, the address or the place therein
    for line in lines:
        if line.startswith("define"):
            tables.clear()
            array.clear()
        elif "ptr" not in line and "call" not in line:  # most lines: patterns take longer to see it
            pass
        elif found := _TABLE.match(line):
            tables.add(found[1])
        elif (found := _ENTRY.match(line)) and found[2] in tables:
            array[found[1]] = int(found[3]) // ENTRY
        elif found := _LOAD.match(line) or _CAST.match(line) or _WITHIN.match(line):
            if found[2] in array:
                array[found[1]] = array[found[2]]
        elif (found := _ACCESS.match(line)) and found[2] in array:
            scope = FIRST + 1 + 3 * array[found[2]]
            line = f"{_NOTED.sub('', line)}, !alias.scope !{scope + 1}, !noalias !{scope + 2}"
        elif _TOUCHING.match(line):
            line = f"{_NOTED.sub('', line)}, !noalias !{FIRST - 1}"
        yield line


COLD = "preserve_mostcc"
"""How superblocks call what is rare: the callee saves registers, not each of them on its way in."""


def calling_cold(text: str) -> str:
    """Let all calls that LLVM has not inlined be of this kind."""
    return text.replace(" fastcc ", f" {COLD} ")


_DEFINITION = re.compile(
    r"^define (?:internal )?(?P<head>[^\n]*?@(?P<name>[-\w.$]+)\([^\n]*) \{\n.*?^\}(?:\n|\Z)",
    flags=re.MULTILINE | re.DOTALL,
)


def declaring(text: str, names: set[str]) -> str:
    """Leave the bodies of these functions to another module."""
    return _DEFINITION.sub(
        lambda found: f"declare {found['head']}\n" if found["name"] in names else found[0], text
    )


def defined_in(text: str) -> set[str]:
    """Names of the functions that have a body in a module."""
    return {found["name"] for found in _DEFINITION.finditer(text)}


def divided(text: str, groups: Sequence[set[str]]) -> Iterator[str]:
    """A module for each group of functions, which call none of another one; the rest is in all."""
    bodies = {found["name"]: found[0] for found in _DEFINITION.finditer(text)}
    rest = _DEFINITION.sub("", text)
    shared = bodies.keys() - set().union(*groups)
    for names in groups:
        own = (body for name, body in bodies.items() if name in names or name in shared)
        yield "\n".join([rest, *own])


def merged(texts: Iterable[str]) -> str:
    """One module of several: what is the same in them comes once."""
    texts = list(texts)
    lines = dict.fromkeys(line for text in texts for line in _DEFINITION.sub("", text).splitlines())
    bodies = dict.fromkeys(found[0] for text in texts for found in _DEFINITION.finditer(text))
    return "\n".join([*lines, *bodies])


_FORGOTTEN_WORDS = FORGOTTEN, FORGOTTEN & 0xFFFFFFFF
_FORGET = re.compile(
    rf"^ *store (i64 {_FORGOTTEN_WORDS[0]}|i32 {_FORGOTTEN_WORDS[1]}), ptr .*\n", flags=re.MULTILINE
)


def without_forgotten(text: str) -> str:
    """Leave out what is not to be written; LLVM has left out what comes before that.

    Returns "" if LLVM has made something else of it: that has to be interpreted.
    """
    text = _FORGET.sub("", text)
    return "" if any(str(word) in text for word in _FORGOTTEN_WORDS) else text

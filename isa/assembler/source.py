"""Assembly source as statements: comments removed, `;` split, repetitions and macros expanded.

Sources: GNU as manual, sections "Whitespace", "Rept", "Macro"; statement separator `;` and comment
characters `#` and `//`: GNU as manual, "RISC-V Dependent Features".
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from isa.assembler.expression import AsmError

LONGEST_LINE = 1 << 14  # characters
DEEPEST = 16  # repetitions and macros within each other
MOST_EXPANDED = 1 << 15, 1 << 21  # statements that these make all together, and their characters

SKIPPED = re.compile(
    r"""(?P<kept>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^\\\n])'?)"""
    r"|(?P<block>/\*.*?\*/)|(?P<open>/\*)|(?://|\#)[^\n]*",
    re.DOTALL,
)
SEPARATED = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^\\])'?|[^;])+""")
LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$]*|\d+)\s*:(?!:)")
ASSIGNMENT = re.compile(r"\s*([A-Za-z_.$][\w.$]*)\s*=(?!=)(.*)", re.DOTALL)
BLOCKS = {".rept": ".endr", ".macro": ".endm"}


class Statement(NamedTuple):
    """One statement: labels, then perhaps a mnemonic or directive and its arguments."""

    line: int
    text: str
    labels: tuple[str, ...] = ()
    word: str = ""
    arguments: str = ""


class Macro(NamedTuple):
    """A macro: parameters with their defaults, and its body."""

    parameters: dict[str, str]
    body: list[Statement]


def located(source: str, statement: Statement, error: AsmError) -> AsmError:
    """The error with the place where it happened."""
    text = statement.text if len(statement.text) <= 60 else statement.text[:57] + "..."
    return AsmError(f"{source}:{statement.line}: {text!r}: {error}")


def statements(text: str, source: str) -> Iterator[Statement]:
    """Split a source text into statements, as they are written.

    raises    AsmError, located, if a comment is not closed or a line too long
    """

    def skip(match: re.Match) -> str:
        if match["open"]:
            line = text.count("\n", 0, match.start()) + 1
            raise located(source, Statement(line, "/*"), AsmError("the comment is not closed"))
        return match["kept"] or " " + "\n" * match[0].count("\n")

    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST_LINE:
            problem = AsmError(f"a line of {len(line)} characters; the most is {LONGEST_LINE}")
            raise located(source, Statement(number, line), problem)
    for number, line in enumerate(SKIPPED.sub(skip, text).split("\n"), 1):
        for piece in SEPARATED.findall(line) if ";" in line else [line]:
            if piece.strip():
                yield Statement(number, piece.strip())


def parse(statement: Statement) -> Statement:
    """Find a statement's labels, word and arguments. `name = value` is `.set name, value`."""
    labels = []
    rest = statement.text
    while match := LABEL.match(rest):
        labels.append(match[1])
        rest = rest[match.end() :]
    if match := ASSIGNMENT.match(rest):
        return statement._replace(
            labels=tuple(labels), word=".set", arguments=f"{match[1]}, {match[2]}"
        )
    word, *arguments = rest.split(None, 1) or [""]
    return statement._replace(
        labels=tuple(labels), word=word.lower(), arguments=arguments[0] if arguments else ""
    )


def split_arguments(text: str) -> list[str]:
    """Split at commas outside of strings and parentheses."""
    pieces, depth, start, quoted = [], 0, 0, False
    for position, character in enumerate(text):
        if character == '"' and text[position - 1 : position] != "\\":
            quoted = not quoted
        elif not quoted and character in "()":
            depth += 1 if character == "(" else -1
        elif not quoted and character == "," and depth == 0:
            pieces.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*pieces, last] if pieces or last else []


class Expander:
    """Yields statements with repetitions and macros carried out.

    count(text)    the number that a repetition's argument stands for at this place
    """

    def __init__(self, source: str, count: Callable[[str], int]) -> None:
        self.source = source
        self.count = count
        self.macros: dict[str, Macro] = {}
        self.made = [0, 0]  # statements and characters, by repetitions and macros
        self.calls = 0

    def expand(self, written: Iterable[Statement], depth: int = 0) -> Iterator[Statement]:
        """Statements without .rept, .macro and macro calls.

        raises    AsmError, located, if these are malformed or make too much
        """
        remaining = iter(written)
        for raw in remaining:
            statement = parse(raw)
            try:
                if depth > DEEPEST:
                    raise AsmError(f"repetitions or macros more than {DEEPEST} deep")
                if statement.word in BLOCKS:
                    if statement.labels:
                        yield statement._replace(word="", arguments="")
                    body = _body(statement.word, remaining)
                    inner: Iterable[Statement] = self._block(statement, body)
                elif statement.word in BLOCKS.values():
                    raise AsmError(f"{statement.word} without its beginning")
                elif statement.word in self.macros:
                    if statement.labels:
                        yield statement._replace(word="", arguments="")
                    inner = self._call(statement)
                else:
                    yield statement
                    continue
            except AsmError as error:
                raise located(self.source, statement, error) from None
            yield from self.expand(inner, depth + 1)

    def _spend(self, times: int, body: list[Statement]) -> None:
        """Count the statements of a repetition or macro. Raises AsmError past MOST_EXPANDED."""
        self.made[0] += times * (len(body) + 1)
        self.made[1] += times * sum(len(statement.text) for statement in body)
        for made, most, what in zip(
            self.made, MOST_EXPANDED, ("statements", "characters"), strict=True
        ):
            if made > most:
                raise AsmError(f"repetitions and macros make more than {most} {what}")

    def _block(self, statement: Statement, body: list[Statement]) -> Iterable[Statement]:
        if statement.word == ".macro":
            name, parameters = _macro_header(statement.arguments)
            self.macros[name] = Macro(parameters, body)
            return ()
        times = self.count(statement.arguments)
        if times < 0:
            raise AsmError(f"cannot repeat {times} times")
        self._spend(times, body)
        return (inner for _ in range(times) for inner in body)

    def _call(self, statement: Statement) -> list[Statement]:
        macro = self.macros[statement.word]
        values = dict(macro.parameters)
        names = list(values)
        for position, argument in enumerate(split_arguments(statement.arguments)):
            name, equals, value = argument.partition("=")
            if equals and name.strip() in values:
                values[name.strip()] = value.strip()
            elif position < len(names):
                values[names[position]] = argument
            else:
                raise AsmError(f"macro {statement.word} has {len(names)} parameters")
        self.calls += 1
        values["@"] = str(self.calls)

        def substitute(match: re.Match) -> str:
            return "" if match[0] == "\\()" else values.get(match[1], match[0])

        body = [
            inner._replace(text=re.sub(r"\\(\w+|@|\(\))", substitute, inner.text))
            for inner in macro.body
        ]
        self._spend(1, body)
        return body


def _body(opening: str, remaining: Iterator[Statement]) -> list[Statement]:
    """Take the statements of a block with its end; return them without it."""
    body: list[Statement] = []
    depth = 1
    for statement in remaining:
        word = parse(statement).word
        depth += (word == opening) - (word == BLOCKS[opening])
        if depth == 0:
            return body
        body.append(statement)
    raise AsmError(f"{opening} without {BLOCKS[opening]}")


def _macro_header(text: str) -> tuple[str, dict[str, str]]:
    name, *rest = re.split(r"[\s,]+", text.strip(), maxsplit=1)
    if not re.fullmatch(r"[A-Za-z_.$][\w.$]*", name):
        raise AsmError("a macro needs a name")
    parameters = {}
    for parameter in re.split(r"[\s,]+", rest[0].strip()) if rest else []:
        key, _, default = parameter.partition("=")
        parameters[key.removesuffix(":req")] = default
    return name.lower(), parameters

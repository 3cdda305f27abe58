"""Expressions of assembly source: tokens, parsing, evaluation.

Operators and their precedence are GNU's: `* / % << >>` bind closest, then `| & ^`, then `+ -`; each
group from the left. Values are 64-bit and wrap. An address has a section until its base is known;
only differences within a section are numbers before.

Source: GNU as manual, sections "Expressions" and "RISC-V-Modifiers".
"""

import re
from collections.abc import Callable
from typing import NamedTuple

DEEPEST = 64  # parentheses and signs around a value

PRECEDENCE = {"+": 0, "-": 0, "|": 1, "&": 1, "^": 1}
PRECEDENCE |= {"*": 2, "/": 2, "%": 2, "<<": 2, ">>": 2}
AN_ADDRESS = "needs numbers (differences of addresses are), not an address in"
SIGNS = ("-", "+", "~", "!")
MODIFIERS = ("%hi", "%lo", "%pcrel_hi", "%pcrel_lo")

TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>0[xX][0-9a-fA-F]+|0[bB][01]+(?![0-9a-zA-Z])|[0-9]+(?![0-9a-zA-Z_]))
      | (?P<local>[0-9]+[fb])(?![0-9a-zA-Z_])
      | (?P<name>%?[A-Za-z_.$][\w.$]*)
      | '(?P<character>\\?[ -~])'?
      | "(?P<string>(?:[^"\\]|\\.)*)"
      | (?P<mark><<|>>|[-+*/%&|^~!(),=:])
    )""",
    re.VERBOSE,
)

ESCAPES = {"n": 10, "t": 9, "r": 13, "b": 8, "f": 12, "\\": 92, '"': 34, "'": 39}


class AsmError(Exception):
    """This source cannot be assembled. The message names file, line, text, rule and way out."""


class Token(NamedTuple):
    """One token: a number has its value, everything else its text."""

    kind: str  # number, local, name, string or mark
    text: str
    value: int = 0


class Value(NamedTuple):
    """A number, or an offset in a section."""

    section: str | None
    number: int


def tokenize(text: str) -> list[Token]:
    """Split a statement into tokens.

    raises    AsmError if there is something else in it
    """
    tokens = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise AsmError(f"cannot read {text[position:].lstrip()[:20]!r}")
        position = match.end()
        kind = match.lastgroup or ""
        body = match[kind]
        if kind == "number":
            tokens.append(Token(kind, body, _number(body)))
        elif kind == "character":
            tokens.append(
                Token("number", body, ESCAPES.get(body[-1], 0) if body[1:] else ord(body))
            )
        else:
            tokens.append(Token(kind, body))
    return tokens


def _number(text: str) -> int:
    if len(text) > 80:
        raise AsmError(f"{text[:20]}... is no 64-bit number")
    try:
        value = int(text, 8) if text[0] == "0" and text.isdigit() else int(text, 0)
    except ValueError:
        raise AsmError(f"{text} is no octal number, as its leading 0 says") from None
    if value >> 64:
        raise AsmError(f"{text} does not fit 64 bits")
    return value


def wrap64(value: int) -> int:
    """The low 64 bits as a signed number."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


class Expression:
    """A parsed expression, in postfix order."""

    def __init__(self, steps: list[Token]) -> None:
        self.steps = steps

    @property
    def is_constant(self) -> bool:
        """Does it mention no symbol?"""
        return all(step.kind in ("number", "sign", "mark") for step in self.steps)

    @property
    def high_part_of(self) -> "Expression | None":
        """E of an expression %pcrel_hi(E), else None."""
        is_high = self.steps[-1] == Token("modifier", "%pcrel_hi")
        return Expression(self.steps[:-1]) if is_high else None

    def evaluate(self, lookup: Callable[[Token], Value], modify: Callable | None = None) -> Value:
        """Compute the value.

        lookup(token)            value of a symbol, local label or `.`
        modify(name, value)      what %hi, %lo, %pcrel_hi, %pcrel_lo make of it; None: not allowed

        raises    AsmError if an operation makes no sense
        """
        stack: list[Value] = []
        for step in self.steps:
            if step.kind == "number":
                stack.append(Value(None, step.value))
            elif step.kind == "sign":
                stack.append(_signed(step.text, stack.pop()))
            elif step.kind == "modifier":
                if modify is None:
                    raise AsmError(f"{step.text} is for operands of instructions")
                stack.append(Value(None, modify(step.text, stack.pop())))
            elif step.kind == "mark":
                right = stack.pop()
                stack.append(_combined(step.text, stack.pop(), right))
            else:
                stack.append(lookup(step))
        return stack.pop()


def _signed(sign: str, value: Value) -> Value:
    if sign == "+":
        return value
    if value.section is not None:
        raise AsmError(f"{sign} {AN_ADDRESS} {value.section}")
    results = {"-": -value.number, "~": ~value.number, "!": int(not value.number)}
    return Value(None, wrap64(results[sign]))


def _combined(operator: str, left: Value, right: Value) -> Value:
    if operator == "+" and (left.section is None or right.section is None):
        return Value(left.section or right.section, wrap64(left.number + right.number))
    if operator == "-" and right.section in (None, left.section):
        section = left.section if right.section is None else None
        return Value(section, wrap64(left.number - right.number))
    for value in (left, right):
        if value.section is not None:
            raise AsmError(f"{operator} {AN_ADDRESS} {value.section}")
    return Value(None, wrap64(_computed(operator, left.number, right.number)))


def _computed(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if right == 0:
            raise AsmError(f"division by zero: {left} {operator} 0")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - right * quotient
    if operator in ("<<", ">>"):
        if not 0 <= right < 64:
            raise AsmError(f"a shift by {right}; shifts are by 0 to 63")
        return left << right if operator == "<<" else left >> right
    return {"*": left * right, "&": left & right, "|": left | right, "^": left ^ right}[operator]


class Parser:
    """Reads expressions from a list of tokens.

    position    the next token
    """

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0

    def peek(self) -> Token | None:
        """The next token, None at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def next_is(self, text: str) -> bool:
        """Is the next token this mark?"""
        token = self.peek()
        return token is not None and token.kind == "mark" and token.text == text

    def accept(self, text: str) -> bool:
        """Take the next token if it is this mark."""
        if not self.next_is(text):
            return False
        self.position += 1
        return True

    def expression(self) -> Expression:
        """Read an expression.

        raises    AsmError if there is none
        """
        steps: list[Token] = []
        self._read(steps, 0, 0)
        return Expression(steps)

    def _read(self, steps: list[Token], lowest: int, depth: int) -> None:
        self._read_value(steps, depth)
        while True:
            token = self.peek()
            if token is None or token.kind != "mark" or PRECEDENCE.get(token.text, -1) < lowest:
                return
            self.position += 1
            self._read(steps, PRECEDENCE[token.text] + 1, depth + 1)
            steps.append(token)

    def _read_value(self, steps: list[Token], depth: int) -> None:
        if depth > DEEPEST:
            raise AsmError(f"an expression nested more than {DEEPEST} deep")
        token = self.peek()
        if token is None:
            raise AsmError("an expression ends early")
        self.position += 1
        if token.kind in ("number", "local") or token.kind == "name" and token.text[0] != "%":
            steps.append(token)
        elif token.kind == "mark" and token.text in SIGNS:
            self._read_value(steps, depth + 1)
            steps.append(Token("sign", token.text))
        elif token.text in MODIFIERS and self.next_is("("):
            self._read_value(steps, depth + 1)
            steps.append(Token("modifier", token.text))
        elif token.kind == "mark" and token.text == "(":
            self._read(steps, 0, depth + 1)
            if not self.accept(")"):
                raise AsmError("a parenthesis is not closed")
        else:
            raise AsmError(f"{token.text!r} is no value")

"""TOML: files and settings as tables, and the exception that tells what is wrong with them.

Format: TOML 1.0.0, as Python's tomllib reads it.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LONGEST_FILE = 1 << 20  # bytes: anything longer is not a config written by a person
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
BARE_WORD = re.compile(r"[^\s\"'\[\]{},=#]+")

Table = dict[str, Any]


class ConfigError(ValueError):
    """A config, a chip or a setting that cannot be used. The command line shows it.

    mistakes    one line each; joined they are the message
    """

    def __init__(self, mistakes: Sequence[str]):
        super().__init__(mistakes)
        self.mistakes = list(mistakes)

    def __str__(self) -> str:
        return "\n".join(self.mistakes)


class Mistakes:
    """Collects the mistakes of several parts, to raise them at once."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            self._lines += error.mistakes

    def raise_any(self) -> None:
        if self._lines:
            raise ConfigError(self._lines)


def read_toml(file: Path) -> Table:
    """Read a file as one table. Raises ConfigError: unreadable, not UTF-8, malformed."""
    data = _read(file)
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{file}:{line}: not UTF-8 text (byte {error.start})"]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_malformed(file, data.decode("utf-8"), str(error))]) from None
    except ValueError:  # NOTE: Python reads decimal integers of at most 4300 digits
        raise ConfigError([f"{file}: an integer is too long"]) from None
    except RecursionError:
        raise ConfigError([f"{file}: arrays or tables are nested too deeply"]) from None


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            data = stream.read(LONGEST_FILE + 1)
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from None
    except ValueError:
        raise ConfigError([f"{file}: cannot be read: a path has no NUL characters"]) from None
    if len(data) > LONGEST_FILE:
        raise ConfigError([f"{file}: longer than {LONGEST_FILE} bytes: not a config file"])
    return data


def _malformed(file: Path, text: str, message: str) -> str:
    """tomllib's "rule (at line 3, column 7)" as "file:3: rule (column 7)"."""
    message = message.replace("Cannot overwrite a value", "a key is set twice, or also a table")
    at = re.fullmatch(r"(?s)(.*) \(at line (\d+), column (\d+)\)", message)
    if at:
        return f"{file}:{at[2]}: malformed TOML: {at[1]} (column {at[3]})"
    rule = message.removesuffix(" (at end of document)")
    return f"{file}:{len(text.splitlines()) or 1}: malformed TOML: {rule} (end of file)"


def parse_setting(text: str) -> Table:
    """The table of "a.b=value". The value is TOML; a bare word is a string.

    Raises ConfigError if it has no key, no value, or a value that is neither.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    names = key.split(".")
    if not equals or not value or not all(BARE_KEY.fullmatch(name) for name in names):
        raise ConfigError([f"--set {text}: must be path.to.field=value, such as l1.banks=32"])
    return _nest(names, _value(text, value))


def _value(text: str, value: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        parsed = {}
    if parsed.keys() == {"value"}:
        return parsed["value"]
    if BARE_WORD.fullmatch(value):
        return value
    raise ConfigError([f"--set {text}: {value} is neither a TOML value nor a bare word"])


def _nest(names: Sequence[str], value: Any) -> Any:
    for name in reversed(names):
        value = {name: value}
    return value


def nested(settings: Mapping[str, Any]) -> Table:
    """Dotted keys as tables: {"l1.banks": 32} is {"l1": {"banks": 32}}."""
    table: Table = {}
    for key, value in settings.items():
        table = merged(table, _nest(key.split("."), value))
    return table


def merged(table: Any, over: Any) -> Any:
    """`table` with the values of `over`, table by table; neither is changed."""
    if not (isinstance(table, dict) and isinstance(over, dict)):
        return over
    both = {key: merged(table[key], over[key]) for key in table.keys() & over.keys()}
    return {**table, **over, **both}

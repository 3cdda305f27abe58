"""Versions of Numba and llvmlite for which the compiler is tested: the bounds of pyproject.toml.

soc.aot.numba_target replaces internals of Numba, soc.jit.edit_llvm edits LLVM's text: what another
version makes of either can be wrong without any error, so none but these compiles.
"""

from importlib.metadata import version

from soc.config.toml import ConfigError

TESTED = {"numba": ("0.62", "0.69"), "llvmlite": ("0.45", "0.51")}
"""From the first of these on, and before the second."""


def require_tested() -> None:
    """Refuse to compile with other versions.

    raises    ConfigError
    """
    wrong = [
        f"{name} {found}: the interpreter is compiled by {name} from {first} on, before {end}; "
        f'pip install "{name}>={first},<{end}"'
        for name, (first, end) in TESTED.items()
        if not _number(first) <= _number(found := version(name)) < _number(end)
    ]
    if wrong:
        raise ConfigError(wrong)


def _number(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)

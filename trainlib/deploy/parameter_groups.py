"""Groups of parameters that learn with options of their own, as those of torch.optim are.

    [{"params": "head.*", "lr": 0.1}, {"params": ["*.bias", "norm*"], "weight_decay": 0.0}]

A group has patterns of its parameters' names, and the options that differ from the optimiser's. Of
several that fit a name, the last one holds.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from trainlib.deploy.graph.values import DeployError, kind_of

PARAMS = "params"
RULE = (
    'a pattern of names, or a list of them, such as ["*.bias", "norm*"]; parameters themselves are '
    "for an optimizer of torch.optim"
)
MOST = 8  # names that an error lists

Groups = Sequence[Mapping[str, Any]]


def patterns_of(group: Mapping[str, Any]) -> tuple[str, ...]:
    """Patterns of a group's parameters: none if what is given is something else."""
    given = group.get(PARAMS, ())
    given = (given,) if isinstance(given, str) else given
    is_right = isinstance(given, Collection) and all(isinstance(each, str) for each in given)
    return tuple(given) if is_right else ()


def options_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """What differs in a group."""
    return {name: value for name, value in group.items() if name != PARAMS}


def last_fitting(groups: Groups, name: str) -> int:
    """The number of a parameter's group, from 1 on; 0: it is in none."""
    fitting = [number for number, group in enumerate(groups, 1) if _fits(group, name)]
    return fitting[-1] if fitting else 0


def _fits(group: Mapping[str, Any], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns_of(group))


def mistakes(
    groups: Any, known: Sequence[str], check: Callable[[dict[str, Any]], object]
) -> list[str]:
    """What is wrong in groups, a line each.

    known    options that a group may have
    check    raises DeployError for options that have wrong values
    """
    if not isinstance(groups, (list, tuple)):
        return [f"groups: {kind_of(groups)}; it is a list of {{{PARAMS!r}: ..., ...}}"]
    found = []
    for number, group in enumerate(groups):
        where = f"groups[{number}]"
        if not isinstance(group, Mapping):
            found.append(f"{where}: {kind_of(group)}; it is {{{PARAMS!r}: ..., and options}}")
            continue
        if not patterns_of(group):
            given = f" = {group[PARAMS]!r}" if PARAMS in group else " is missing"
            found.append(f"{where}: {PARAMS}{given}; it is {RULE}")
        options = options_of(group)
        for name in sorted(options.keys() - set(known)):
            found.append(f"{where}: {name}: a group has {', '.join(known)}")
        right: dict[str, Any] = {}
        for name in [name for name in known if name in options]:
            try:
                check(right | {name: options[name]})
                right[name] = options[name]
            except DeployError as error:
                found.append(f"{where}: {str(error).partition(': ')[2]}")
    return found


def unfit(groups: Groups, names: Sequence[str]) -> list[str]:
    """Patterns that no parameter's name fits, a line each.

    names    of all parameters
    """
    known = f"{', '.join(names[:MOST])}{' ...' if len(names) > MOST else ''}"
    return [
        f"groups[{number}]: {PARAMS} {pattern!r}: no parameter fits; there are {known}"
        for number, group in enumerate(groups)
        for pattern in patterns_of(group)
        if not any(fnmatchcase(name, pattern) for name in names)
    ]

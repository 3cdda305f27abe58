"""Results of searches: the best point of a layer, kept and looked up.

keep_best(space, found, database)
deploy(model, ..., tuned=tuned_by(database, chip))
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from autotuner.measurement_store import Database, key_of
from autotuner.point import Layer
from autotuner.result import Found
from autotuner.space import Space
from soc.chip.spec import SocSpec
from soc.config.toml import ConfigError

BEST = " best"  # after a primitive's name, in the database


GAIN = 0.97
"""Of the cycles of a network's own choice that a point takes at most, to be taken instead: layers
take a few per cent more or less than alone in a network, whose code and tables lie elsewhere."""
FETCH = 700
"""Cycles that a layer takes less in a network than alone if all of it is in L1, at most: there its
code is fetched while its operands are copied."""


def keep_best(space: Space, found: Sequence[Found], database: Database) -> None:
    """Keep a layer's best point, that `tuned_by` finds: the first of these; none where what a
    network chooses itself takes hardly longer.

    raises    ConfigError if the database refuses
    """
    layer, best = space.layer, found[0]
    point = space.deployed() or space.default()
    cycles = next((f.outcome.rank for f in found if f.point == point), inf)
    most = GAIN * (cycles - FETCH * (point.tile is None and space.is_resident))
    is_own = best.point == point or best.outcome.rank > most
    arguments = {"cores": space.chip.cores} if is_own else _plain(best.point.arguments)
    key = _key(layer, space.chip)
    database.keep(key, layer.kernel + BEST, arguments, space.chip.name, best.outcome, again=True)


def tuned_by(
    database: Database, chip: SocSpec
) -> Callable[[str, Mapping[str, Any]], Mapping[str, Any]]:
    """What returns the further arguments of a primitive's best point, {} where none is known.

    A point of fewer cores than the chip has is none: calls of a network share all of them.

    raises    ConfigError, when called, if the database refuses
    """

    def tuned(kernel: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            layer = Layer.of(kernel, arguments)
        except ConfigError:  # words that only a network's graph has
            return {}
        found = database.arguments_of(_key(layer, chip))
        if not found or found.pop("cores") != chip.cores:
            return {}
        return found

    return tuned


def _key(layer: Layer, chip: SocSpec) -> str:
    return key_of(layer.kernel + BEST, _plain(layer.given), chip, 0)


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in sorted(arguments)}

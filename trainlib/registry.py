"""The registry: what `kernel` in a config's [program] may be, primitives and networks, by name."""

from difflib import get_close_matches

from soc.config.toml import ConfigError
from trainlib.calls.primitives import PRIMITIVES
from trainlib.network.ops import FAMILIES as NETWORKS
from trainlib.primitive.operator import Family

KERNELS = PRIMITIVES | {family.name: family for family in NETWORKS}


def family_of(kernel: str, source: str | None = None) -> Family:
    """The primitive of that name.

    source    where it is named, for messages
    raises    ConfigError if there is none
    """
    if kernel in KERNELS:
        return KERNELS[kernel]
    near = get_close_matches(str(kernel), KERNELS, 1)
    known = f"did you mean {near[0]}?" if near else "`pulpsim kernels` lists them all"
    where = f"{source}: " if source else ""
    raise ConfigError([f"{where}kernel {kernel!r}: no such kernel; {known}"])

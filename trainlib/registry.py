"""The registry: what `kernel` in a config's [program] may be, primitives and networks, by name."""

from difflib import get_close_matches

from soc.toml_file import ConfigError
from trainlib import network
from trainlib.kernels import Family
from trainlib.primitives import PRIMITIVES

KERNELS = PRIMITIVES | {family.name: family for family in network.FAMILIES}


def family_of(kernel: str) -> Family:
    """The primitive of that name.

    raises    ConfigError if there is none
    """
    if kernel in KERNELS:
        return KERNELS[kernel]
    near = get_close_matches(str(kernel), KERNELS, 1)
    known = f"did you mean {near[0]}?" if near else f"the kernels are {', '.join(KERNELS)}"
    raise ConfigError([f"kernel {kernel!r}: no such kernel; {known}"])

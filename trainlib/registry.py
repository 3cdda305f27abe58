"""The registry: all primitives, by the name that `kernel` in a config's [program] says."""

from difflib import get_close_matches

from soc.toml_file import ConfigError
from trainlib import (
    act,
    attention_program,
    berhu,
    conv2d_program,
    cross_entropy_program,
    dropout,
    embedding,
    interpolate_program,
    layout,
    linear_program,
    loss,
    matmul_program,
    network,
    norm,
    optim,
    pool_program,
    reduce,
    rnn_program,
    softmax,
    unary,
)
from trainlib.kernels import Family

FILES = (
    act.FAMILIES,
    attention_program.FAMILIES,
    berhu.FAMILIES,
    conv2d_program.FAMILIES,
    cross_entropy_program.FAMILIES,
    dropout.FAMILIES,
    embedding.FAMILIES,
    interpolate_program.FAMILIES,
    layout.FAMILIES,
    linear_program.FAMILIES,
    loss.FAMILIES,
    matmul_program.FAMILIES,
    network.FAMILIES,
    norm.FAMILIES,
    optim.FAMILIES,
    pool_program.FAMILIES,
    reduce.FAMILIES,
    rnn_program.FAMILIES,
    softmax.FAMILIES,
    unary.FAMILIES,
)  # fmt: skip
KERNELS = {family.name: family for families in FILES for family in families}


def family_of(kernel: str) -> Family:
    """The primitive of that name.

    raises    ConfigError if there is none
    """
    if kernel in KERNELS:
        return KERNELS[kernel]
    near = get_close_matches(kernel, KERNELS, 1)
    known = f"did you mean {near[0]}?" if near else f"the kernels are {', '.join(KERNELS)}"
    raise ConfigError([f"kernel {kernel!r}: no such kernel; {known}"])

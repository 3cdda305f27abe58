"""All primitives but whole networks, by name: networks are made of them."""

from trainlib import (
    act,
    attention_program,
    berhu,
    conv2d_program,
    cross_entropy_program,
    dropout,
    embedding_program,
    gated,
    interpolate_program,
    layout,
    linear_program,
    loss,
    matmul_program,
    norm_program,
    optim,
    pool_program,
    reduce,
    rnn_program,
    softmax,
    unary,
)
from trainlib.kernels import Family

FILES = (
    act,
    gated,
    attention_program,
    berhu,
    conv2d_program,
    cross_entropy_program,
    dropout,
    embedding_program,
    interpolate_program,
    layout,
    linear_program,
    loss,
    matmul_program,
    norm_program,
    optim,
    pool_program,
    reduce,
    rnn_program,
    softmax,
    unary,
)  # fmt: skip
PRIMITIVES: dict[str, Family] = {family.name: family for file in FILES for family in file.FAMILIES}

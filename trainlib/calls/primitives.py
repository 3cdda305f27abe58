"""The primitives of which networks are made, by name."""

from trainlib.attention import ops as attention
from trainlib.conv import ops as conv
from trainlib.elementwise import (
    activations,
    broadcast,
    casts,
    clipping,
    dropout,
    exponential_units,
    gated_activations,
    labels,
    loss_scale,
    math_functions,
    optimizer_ops,
    strided_copy,
)
from trainlib.elementwise import data_movement as layout
from trainlib.gemm import batched_ops, linear_ops, matmul_ops
from trainlib.interpolate import ops as interpolate
from trainlib.loss import berhu, binary_cross_entropy, cross_entropy_ops
from trainlib.loss import elementwise as elements
from trainlib.norm import ops as norm
from trainlib.pool import ops as pool
from trainlib.primitive.operator import Family
from trainlib.recurrent import ops as recurrent
from trainlib.reduction import embedding_ops, reduce, softmax

FILES = (
    activations,
    gated_activations,
    attention,
    batched_ops,
    berhu,
    binary_cross_entropy,
    broadcast,
    casts,
    clipping,
    conv,
    cross_entropy_ops,
    dropout,
    embedding_ops,
    exponential_units,
    interpolate,
    labels,
    layout,
    linear_ops,
    elements,
    loss_scale,
    matmul_ops,
    norm,
    optimizer_ops,
    pool,
    reduce,
    recurrent,
    softmax,
    strided_copy,
    math_functions,
)  # fmt: skip
PRIMITIVES: dict[str, Family] = {family.name: family for file in FILES for family in file.FAMILIES}

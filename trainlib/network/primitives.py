"""All primitives but whole networks, by name: networks are made of them."""

from trainlib.attention import program as attention
from trainlib.conv import program as conv
from trainlib.interpolate import program as interpolate
from trainlib.loss import berhu, cross_entropy_program, elements
from trainlib.maps import act, dropout, gated, layout, optim, unary
from trainlib.norm import program as norm
from trainlib.pool import program as pool
from trainlib.primitive.family import Family
from trainlib.product import batched_program, linear_program, matmul_program
from trainlib.recurrent import program as recurrent
from trainlib.rows import embedding_program, reduce, softmax

FILES = (
    act,
    gated,
    attention,
    batched_program,
    berhu,
    conv,
    cross_entropy_program,
    dropout,
    embedding_program,
    interpolate,
    layout,
    linear_program,
    elements,
    matmul_program,
    norm,
    optim,
    pool,
    reduce,
    recurrent,
    softmax,
    unary,
)  # fmt: skip
PRIMITIVES: dict[str, Family] = {family.name: family for file in FILES for family in file.FAMILIES}

"""Multi-head self-attention in float64, with running bounds of float32's errors.

X[batch, length, embed]    W[3 width, embed]    Wo[embed, width]    width = heads * size of a head
"""

from math import sqrt

from trainlib.primitive.tensor import Arrays
from trainlib.reference.error_analysis import Near

Outputs = dict[str, Near]


def _inputs(values: Arrays) -> Outputs:
    return {name: Near.of(array) for name, array in values.items()}


def _by_head(rows: Near, heads: int) -> Near:
    """[batch, length, width] as [batch, heads, length, size]."""
    batch, length, width = rows.value.shape
    return rows.reshape(batch, length, heads, width // heads).moved(2, 1)


def _by_row(parts: Near) -> Near:
    """The other way round."""
    batch, _, length, _ = parts.value.shape
    return parts.moved(1, 2).reshape(batch, length, -1)


def _queries_keys_values(rows: Near, heads: int) -> list[Near]:
    width = rows.value.shape[2] // 3
    return [_by_head(rows[:, :, at : at + width], heads) for at in range(0, 3 * width, width)]


def mhsa_fw(values: Arrays, heads: int) -> Outputs:
    """Y = (softmax(Q K^T) V) Wo^T + bias_o; Q has been divided by the root of its size."""
    v = _inputs(values)
    rows = v["X"].matmul(v["W"].transposed(), v["bias"])
    width = v["Wo"].value.shape[1]
    scaled = rows[:, :, :width] * (1 / sqrt(width // heads))
    qkv = Near.join([scaled, rows[:, :, width:]])
    q, key, value = _queries_keys_values(qkv, heads)
    p = q.matmul(key.transposed()).softmax()
    o = _by_row(p.matmul(value))
    y = o.matmul(v["Wo"].transposed(), v["bias_o"])
    return {"QKV": qkv, "P": p, "O": o, "Y": y}


def mhsa_bw(values: Arrays, heads: int) -> Outputs:
    v = _inputs(values)
    q, key, value = _queries_keys_values(v["QKV"], heads)
    width, embed = v["Wo"].value.shape[1], v["X"].value.shape[2]
    do = _by_head(v["dY"].matmul(v["Wo"]), heads)
    dvalue = v["P"].transposed().matmul(do)
    ds = v["P"].softmax_backward(do.matmul(value.transposed()))
    dq = _by_row(ds.matmul(key)) * (1 / sqrt(width // heads))
    dkey = ds.transposed().matmul(q)
    rows = Near.join([dq, _by_row(dkey), _by_row(dvalue)])
    flat, dy = rows.reshape(-1, 3 * width), v["dY"].reshape(-1, embed)
    return {
        "dX": rows.matmul(v["W"]),
        "dW": flat.transposed().matmul(v["X"].reshape(-1, embed)),
        "dbias": flat.sum(),
        "dWo": dy.transposed().matmul(v["O"].reshape(-1, width)),
        "dbias_o": dy.sum(),
    }

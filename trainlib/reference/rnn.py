"""Recurrent layers over a sequence in float64, with running bounds of float32's errors.

X[steps, batch, inputs]    Wx[gates hidden, inputs]    Wh[gates hidden, hidden]    h0[batch, hidden]

The order of gates is torch's: LSTM's input, forget, cell, output; GRU's reset, update, new.
"""

import numpy as np

from trainlib.primitive.tensor import Arrays
from trainlib.reference.error_analysis import Near

Outputs = dict[str, Near]


def _inputs(values: Arrays) -> Outputs:
    return {name: Near.of(array) for name, array in values.items()}


def _gates(row: Near, hidden: int) -> list[Near]:
    return [row[:, at : at + hidden] for at in range(0, row.value.shape[1], hidden)]


def rnn_fw(values: Arrays, activation: str) -> Outputs:
    """h = f(Wx x + bias_x + Wh h + bias_h)."""
    v = _inputs(values)
    wx, wh, bias = v["Wx"].transposed(), v["Wh"].transposed(), v["bias_x"] + v["bias_h"]
    h, hs = v["h0"], []
    for t in range(len(values["X"])):
        total = h.matmul(wh, v["X"][t].matmul(wx, bias))
        h = total.tanh() if activation == "tanh" else total.relu()
        hs.append(h)
    return {"Y": Near.stack(hs)}


def rnn_bw(values: Arrays, activation: str) -> Outputs:
    v = _inputs(values)
    dh, d = v["dhn"], []
    for t in reversed(range(len(values["X"]))):
        y, dy = v["Y"][t], v["dY"][t] + dh
        d.append(dy * (1.0 - y * y) if activation == "tanh" else dy.where(y.value > 0))
        dh = d[-1].matmul(v["Wh"])
    dg = Near.stack(d[::-1])
    return _gradients(v, dg, dg) | {"dh0": dh}


def lstm_fw(values: Arrays) -> Outputs:
    """c = f c + i g, h = o tanh(c); saves gates and c of every step."""
    v = _inputs(values)
    wx, wh, bias = v["Wx"].transposed(), v["Wh"].transposed(), v["bias_x"] + v["bias_h"]
    h, c = v["h0"], v["c0"]
    hidden = h.value.shape[1]
    hs, cs, gates = [], [], []
    for t in range(len(values["X"])):
        i, f, g, o = _gates(h.matmul(wh, v["X"][t].matmul(wx, bias)), hidden)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c + i * g
        h = o * c.tanh()
        hs.append(h)
        cs.append(c)
        gates.append(Near.join([i, f, g, o]))
    return {"Y": Near.stack(hs), "C": Near.stack(cs), "gates": Near.stack(gates)}


def lstm_bw(values: Arrays) -> Outputs:
    v = _inputs(values)
    dh, dc, d = v["dhn"], v["dcn"], []
    for t in reversed(range(len(values["X"]))):
        i, f, g, o = _gates(v["gates"][t], values["h0"].shape[1])
        c, before = v["C"][t].tanh(), v["C"][t - 1] if t else v["c0"]
        dh = v["dY"][t] + dh
        dc = dc + dh * o * (1.0 - c * c)
        d.append(
            Near.join(
                [
                    dc * g * i * (1.0 - i),
                    dc * before * f * (1.0 - f),
                    dc * i * (1.0 - g * g),
                    dh * c * o * (1.0 - o),
                ]
            )
        )
        dh, dc = d[-1].matmul(v["Wh"]), dc * f
    dg = Near.stack(d[::-1])
    return _gradients(v, dg, dg) | {"dh0": dh, "dc0": dc}


def gru_fw(values: Arrays) -> Outputs:
    """h = n + z (h - n), n = tanh(Wx x + bias_x + r (Wh h + bias_h)); saves r, z, n; N is what r
    is multiplied by.
    """
    v = _inputs(values)
    wx, wh, bx, bh = v["Wx"].transposed(), v["Wh"].transposed(), v["bias_x"], v["bias_h"]
    h = v["h0"]
    hidden = h.value.shape[1]
    rz, new = slice(2 * hidden), slice(2 * hidden, None)
    hs, ns, gates = [], [], []
    for t in range(len(values["X"])):
        x = v["X"][t]
        sums = h.matmul(wh[:, rz], x.matmul(wx[:, rz], bx[rz] + bh[rz]))
        r, z = (gate.sigmoid() for gate in _gates(sums, hidden))
        ns.append(h.matmul(wh[:, new], bh[new]))
        n = (x.matmul(wx[:, new], bx[new]) + r * ns[-1]).tanh()
        h = n.mixed(h, z)
        hs.append(h)
        gates.append(Near.join([r, z, n]))
    return {"Y": Near.stack(hs), "gates": Near.stack(gates), "N": Near.stack(ns)}


def gru_bw(values: Arrays) -> Outputs:
    v = _inputs(values)
    dh, of_x, of_h = v["dhn"], [], []
    for t in reversed(range(len(values["X"]))):
        r, z, n = _gates(v["gates"][t], values["h0"].shape[1])
        before = v["Y"][t - 1] if t else v["h0"]
        dh = v["dY"][t] + dh
        dz = dh * (before - n) * z * (1.0 - z)
        dn = dh * (1.0 - z) * (1.0 - n * n)
        ds = dn * r
        dr = ds * v["N"][t] * (1.0 - r)
        of_x.append(Near.join([dr, dz, dn]))
        of_h.append(Near.join([dr, dz, ds]))
        dh = of_h[-1].matmul(v["Wh"], dh * z)
    return _gradients(v, Near.stack(of_x[::-1]), Near.stack(of_h[::-1])) | {"dh0": dh}


def _gradients(v: Outputs, of_x: Near, of_h: Near) -> Outputs:
    """Of what the gates' sums are made of, given the gradients of these: X's part and h's."""
    steps, batch, sums = of_x.value.shape
    before = Near.of(np.concatenate([v["h0"].value[None], v["Y"].value[:-1]]))
    before = before.reshape(steps * batch, -1)
    x = v["X"].reshape(steps * batch, -1)
    of_x, of_h = of_x.reshape(-1, sums), of_h.reshape(-1, sums)
    return {
        "dX": of_x.matmul(v["Wx"]).reshape(steps, batch, -1),
        "dWx": of_x.transposed().matmul(x),
        "dWh": of_h.transposed().matmul(before),
        "dbias_x": of_x.sum(),
        "dbias_h": of_h.sum(),
    }

"""The steps of recurrent layers, forward and backward: RNN, LSTM, GRU, as torch's.

    RNN     h = f(Wx x + bias_x + Wh h + bias_h), f is tanh or ReLU
    LSTM    gates i, f, g, o: c = f c + i g, h = o tanh(c)
    GRU     gates r, z, n: n = tanh(Wx x + bias_x + r (Wh h + bias_h)), h = n + z (h - n)

The gates of a step lie side by side in a row; "Y_t" is the step's part of "Y".
"""

from typing import Literal

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes, constant
from trainlib.codegen.loop_nest import Body, Load
from trainlib.elementwise.activations import (
    relu_backward,
    relu_forward,
    sigmoid_forward,
    tanh_backward,
    tanh_forward,
)
from trainlib.elementwise.approximations import Tanh
from trainlib.elementwise.elementwise import Operation
from trainlib.recurrent.gates import Cell, GateSlice, Recurrence

Activation = Literal["tanh", "relu"]
FORWARD = {"tanh": tanh_forward, "relu": relu_forward}
BACKWARD = {"tanh": tanh_backward, "relu": relu_backward}


def rnn_step(layer: Recurrence, *, activation: Activation) -> None:
    """Y_t from sums of the inputs in it, and h."""
    layer.hidden_sums("Y_t")
    layer.each(FORWARD[activation], [GateSlice("Y_t")], [GateSlice("Y_t")])


def rnn_step_back(layer: Recurrence, *, activation: Activation) -> None:
    """dG_t, and dh0 of the step before, from dY_t and dh0."""
    sources = [GateSlice("Y_t"), GateSlice("dY_t"), GateSlice("dh0")]
    layer.each(_through(BACKWARD[activation]), sources, [GateSlice("dG_t")])
    layer.team.barrier()
    layer.hidden_gradient("dG_t")


def _through(backward: Operation) -> Operation:
    """The gradient of what an activation gave, in two parts, to that of what it was given."""

    def operation(k: Kernel) -> Body:
        of_sum = backward(k)

        def body(v: Lanes, y: Lane, dy: Lane, dh: Lane) -> list[Lane]:
            v.fadd_s(dy, dy, dh)
            return list(of_sum(v, y, dy))

        return body

    return operation


def lstm_step(layer: Recurrence) -> None:
    """Y_t, C_t and gates_t from sums of the inputs in the gates, h and c."""
    i, f, g, o = (GateSlice("gates_t", gate, 4) for gate in range(4))
    layer.hidden_sums("gates_t")
    layer.each(sigmoid_forward, [i], [i], gates=2)
    layer.each(sigmoid_forward, [o], [o])
    layer.each(tanh_forward, [g], [g])
    layer.team.barrier()
    layer.each(_cell, [i, f, g, GateSlice("c")], [GateSlice("C_t")])
    layer.team.barrier()
    layer.each(_output, [GateSlice("C_t"), o], [GateSlice("Y_t")], late=(1,))


def _cell(_: Kernel) -> Body:
    def body(v: Lanes, i: Lane, f: Lane, g: Lane, c: Lane) -> list[Lane]:
        v.fmul_s(i, i, g)
        v.fmadd_s(i, f, c, i)
        return [i]

    return body


def _output(k: Kernel) -> Body:
    tanh = Tanh(k)

    def body(v: Lanes, c: Lane, load_o: Load) -> list[Lane]:
        o, b, d = v.f(), v.f(), v.f()
        tanh(v, c, o, b, d)
        load_o(o)
        v.fmul_s(c, c, o)
        return [c]

    return body


def lstm_step_back(layer: Recurrence) -> None:
    """dG_t, and dh0 and dc0 of the step before; where do comes, there is tanh(C_t)."""
    i, f, g, o = (GateSlice("gates_t", gate, 4) for gate in range(4))
    di, df, dg, do = (GateSlice("dG_t", gate, 4) for gate in range(4))
    dc, dh, dy = GateSlice("dc0"), GateSlice("dh0"), GateSlice("dY_t")
    layer.each(_output_gradient, [dy, dh, do, o, dc], [do, dc])
    layer.team.barrier()
    layer.each(_cell_gradients, [dc, i, f, g, GateSlice("c")], [di, df, dg, dc])
    layer.team.barrier()
    layer.hidden_gradient("dG_t")


def _output_gradient(k: Kernel) -> Body:
    one = constant(k, 1.0)

    def body(v: Lanes, dy: Lane, dh: Lane, tanh: Lane, o: Lane, dc: Lane) -> list[Lane]:
        v.fadd_s(dh, dh, dy)
        v.fmul_s(dh, dh, o)
        v.fmul_s(dy, dh, tanh)
        v.fnmsub_s(tanh, tanh, tanh, one)
        v.fsub_s(o, one, o)
        v.fmadd_s(dc, dh, tanh, dc)
        v.fmul_s(dy, dy, o)
        return [dy, dc]

    return body


def _cell_gradients(k: Kernel) -> Body:
    one = constant(k, 1.0)

    def body(v: Lanes, dc: Lane, i: Lane, f: Lane, g: Lane, c: Lane) -> list[Lane]:
        di, dg = v.f(), v.f()
        v.fmul_s(di, dc, g)
        v.fmul_s(dg, dc, i)
        v.fmul_s(dc, dc, f)  # of the step before
        v.fnmsub_s(g, g, g, one)
        v.fmul_s(di, di, i)
        v.fsub_s(i, one, i)
        v.fsub_s(f, one, f)
        v.fmul_s(c, c, dc)
        v.fmul_s(di, di, i)
        v.fmul_s(dg, dg, g)
        v.fmul_s(c, c, f)
        return [di, c, dg, dc]

    return body


def gru_step(layer: Recurrence) -> None:
    """Y_t, gates_t and N_t from sums of the inputs in the gates, and h."""
    r, z, n = (GateSlice("gates_t", gate, 3) for gate in range(3))
    layer.reset_sums()
    layer.each(sigmoid_forward, [r], [r], gates=2)
    layer.team.barrier()
    layer.each(_new, [n, r, GateSlice("N_t")], [n], late=(1, 2))
    layer.team.barrier()
    layer.each(_mix, [n, z, GateSlice("h")], [GateSlice("Y_t")])


def _new(k: Kernel) -> Body:
    tanh = Tanh(k)

    def body(v: Lanes, n: Lane, load_r: Load, load_hidden: Load) -> list[Lane]:
        r, hidden, spare = v.f(), v.f(), v.f()
        load_r(r)
        load_hidden(hidden)
        v.fmadd_s(n, r, hidden, n)
        tanh(v, n, r, hidden, spare)
        return [n]

    return body


def _mix(_: Kernel) -> Body:
    def body(v: Lanes, n: Lane, z: Lane, h: Lane) -> list[Lane]:
        v.fsub_s(h, h, n)
        v.fmadd_s(n, z, h, n)
        return [n]

    return body


def gru_step_back(layer: Recurrence) -> None:
    """dG_t, dGh_t, and dh0 of the step before, from dY_t and dh0."""
    r, z, n = (GateSlice("gates_t", gate, 3) for gate in range(3))
    dr, dz, dn = (GateSlice("dG_t", gate, 3) for gate in range(3))
    drh, dzh, dnh = (GateSlice("dGh_t", gate, 3) for gate in range(3))
    dh = GateSlice("dh0")
    sources = [GateSlice("dY_t"), dh, z, n, GateSlice("h")]
    layer.each(_mix_gradients, sources, [dz, dzh, dn, dh])
    layer.team.barrier()
    layer.each(_reset_gradients, [dn, r, GateSlice("N_t")], [dr, drh, dnh])
    layer.team.barrier()
    layer.hidden_gradient("dGh_t", accumulate=True)


def _mix_gradients(k: Kernel) -> Body:
    """dh has h's own part by z left, to which the gates' is added."""
    one = constant(k, 1.0)

    def body(v: Lanes, dy: Lane, dh: Lane, z: Lane, n: Lane, h: Lane) -> list[Lane]:
        v.fadd_s(dy, dy, dh)
        v.fsub_s(h, h, n)
        v.fmul_s(dh, dy, z)
        v.fsub_s(z, one, z)
        v.fnmsub_s(n, n, n, one)
        v.fmul_s(h, h, dh)
        v.fmul_s(dy, dy, z)
        v.fmul_s(h, h, z)
        v.fmul_s(n, n, dy)
        return [h, h, n, dh]

    return body


def _reset_gradients(k: Kernel) -> Body:
    one = constant(k, 1.0)

    def body(v: Lanes, dn: Lane, r: Lane, hidden: Lane) -> list[Lane]:
        v.fmul_s(dn, dn, r)
        v.fsub_s(r, one, r)
        v.fmul_s(hidden, hidden, dn)
        v.fmul_s(hidden, hidden, r)
        return [hidden, hidden, dn]

    return body


H, H_AND_C = {"h": "Y"}, {"h": "Y", "c": "C"}
CELLS = {
    "rnn": Cell(1, H, {"Y": 1}, ("dG",), rnn_step, rnn_step_back),
    "lstm": Cell(4, H_AND_C, {"Y": 1, "C": 1, "gates": 4}, ("dG",), lstm_step, lstm_step_back),
    "gru": Cell(3, H, {"Y": 1, "gates": 3, "N": 1}, ("dG", "dGh"), gru_step, gru_step_back),
}

"""Recurrent layers over a sequence in L1, forward and backward.

Addresses are by the names of the families' tensors (trainlib.recurrent.ops).
"""

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.operand_addresses import places_of
from trainlib.elementwise.activations import tanh_forward
from trainlib.primitive.tensor import WORD, Addresses
from trainlib.recurrent.gates import Cell, GateSlice, Recurrence, Shape, copy, padded


def recurrent_fw_f32(k: Kernel, team: Team, at: Addresses, shape: Shape, cell: Cell) -> None:
    """Y[t] = h, and what else the gradients need, of every step."""
    moving = {name: (f"{name}0", 0) for name in cell.states}
    moving |= {f"{name}_t": (name, 0) for name in cell.saved}
    if shape.gates == 3:
        last = 2 * shape.hidden
        moving["Wh_n"] = "Wh", last * padded(shape.hidden)
        moving["bias_n"] = "bias_h", WORD * last
    with places_of(k, at, moving, 1) as places:
        layer = Recurrence(k, team, shape, places)
        layer.input_sums(cell.sums_in, cell.added)
        with layer.forward(cell.saved, cell.states):
            cell.step(layer)


def recurrent_bw_f32(k: Kernel, team: Team, at: Addresses, shape: Shape, cell: Cell) -> None:
    """Gradients from dY, and from dhn and dcn, those of the last h and c.

    dh0 and dc0 hold those of a step.
    """
    of_x, of_h = cell.sums[0], cell.sums[-1]
    names = {name: gates for name, gates in cell.gradients.items() if name != "C"}
    before = {cell.before: (cell.states[cell.before], f"{cell.before}0")} if cell.before else {}
    last = shape.steps - 1
    moving = {f"{name}_t": (name, last * shape.step(gates)) for name, gates in names.items()}
    moving[f"{of_h}_1"] = of_h, shape.step(shape.gates)
    for name, (source, first) in before.items():
        moving[name] = (source, (last - 1) * shape.step(1)) if last else (first, 0)
    with places_of(k, at, moving, 1) as places:
        layer = Recurrence(k, team, shape, places)
        for name in cell.states:
            layer.each(copy, [GateSlice(f"d{name}n")], [GateSlice(f"d{name}0")])
        if "c" in cell.states:
            rows = shape.steps * shape.batch
            layer.each(
                tanh_forward, [GateSlice("C")], [GateSlice("dG", 3, 4)], rows=rows
            )  # where do comes
        team.barrier()
        with layer.backward(names, before):
            cell.step_back(layer)
        layer.gradients(of_x, of_h)

"""Recurrent layers whose tensors lie in L2: the phases of both directions.

What does not wait for the step before is one product for the whole sequence, see
trainlib.recurrent.gates; the steps are those of trainlib.recurrent.tiles.
"""

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.operand_addresses import places_of
from trainlib.gemm.phases import Matrix, Products
from trainlib.primitive.phases import Phase
from trainlib.primitive.slices import TileShape
from trainlib.primitive.tensor import Addresses, Tensor, Tensors
from trainlib.primitive.tile_spec import Dim, Tiling
from trainlib.recurrent.gates import Cell, Recurrence, Shape
from trainlib.recurrent.tiles import Steps


def forward_phases(s: Shape, cell: Cell) -> list[Phase]:
    """Sums of biases to the buffer "bias", those of inputs, then the steps."""
    tiling, tensors = Steps(s, cell).forward()
    products = Products({"rows": s.steps * s.batch, "inputs": s.inputs, "sums": s.sums})
    return [
        _bias_sums(s, cell),
        products.of(
            "input_sums",
            Matrix("X", ("rows", "inputs")),
            Matrix("Wx", ("sums", "inputs")),
            Matrix(cell.sums_in, ("rows", "sums")),
            bias=Matrix("bias", ("sums",)),
        ),
        Phase("steps", tiling, tensors, {name: (name, 0) for name in tensors}),
    ]


def _bias_sums(s: Shape, cell: Cell) -> Phase:
    """One tile: they are few."""
    tensors: Tensors = {name: Tensor((s.sums,)) for name in ("bias_x", "bias_h")}
    tensors = {**tensors, "bias": Tensor((s.sums,), "out")}

    def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
        with places_of(k, at, {}, 0) as places:
            Recurrence(k, team, s, places).bias_sums(cell.added)

    tiling = Tiling((Dim("biases", 1),), dict.fromkeys(tensors, (None,)), emit)
    return Phase("bias_sums", tiling, tensors, {name: (name, 0) for name in tensors})


def backward_phases(s: Shape, cell: Cell) -> list[Phase]:
    """The steps from the last on, then products of the gradients of sums: buffers by their names.

    h of the step before the first is h0, later ones are in Y.
    """
    tiling, tensors = Steps(s, cell).backward()
    of_x, of_h = cell.sums[0], cell.sums[-1]
    step = s.step(s.gates)
    sizes = {"inputs": s.inputs, "sums": s.sums, "hidden": s.hidden}
    every = Products(sizes | {"rows": s.steps * s.batch})
    first = Products(sizes | {"rows": s.batch})
    later = Products(sizes | {"rows": (s.steps - 1) * s.batch})
    rows, wh = ("rows", "sums"), Matrix("dWh", ("sums", "hidden"))
    at = {name: (name, 0) for name in tensors}
    if "before" in at:
        at["before"] = (cell.states[cell.before or "h"], 0)
    dg, x = Matrix(of_x, rows), Matrix("X", ("rows", "inputs"))
    phases = [
        Phase("steps", tiling, tensors, at),
        every.of("dX", dg, Matrix("Wx", ("sums", "inputs")), Matrix("dX", ("rows", "inputs"))),
        every.of("dWx", dg, x, Matrix("dWx", ("sums", "inputs"))),
        every.sums("dbias_x", dg, Matrix("dbias_x", ("sums",))),
        every.sums("dbias_h", Matrix(of_h, rows), Matrix("dbias_h", ("sums",))),
        first.of("dWh", Matrix(of_h, rows), Matrix("h0", ("rows", "hidden")), wh),
    ]
    if s.steps > 1:
        y = Matrix("Y", ("rows", "hidden"))
        phases.append(later.of("dWh", Matrix(of_h, rows, step), y, wh, accumulate=True))
    return phases

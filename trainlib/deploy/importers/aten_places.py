"""Places that integers say: ones there and zeros elsewhere, rows of a table."""

from math import prod
from typing import Any

import numpy as np

from trainlib.deploy.importers.aten_choices import differs, negation
from trainlib.deploy.importers.aten_importer import Importer
from trainlib.deploy.importers.aten_shapes import Known


def ones_at(i: Importer, index: Any, count: int) -> str:
    """1 at the place that each integer says, of so many, along an axis of its own, the last.

    index    integers that are constants, come with a batch, or are computed
    """
    if i.is_array(index):
        return i.constant(np.eye(count, dtype=np.float32)[i.array(index)])
    name = i.name(index)
    shape = i.graph.values[name].shape
    if i.graph.values[name].dtype == "int32":
        flat = i.graph.reshaped(name, (prod(shape),))
        table = i.constant(np.eye(count, dtype=np.float32))
        return i.graph.reshaped(
            i.node("take", {"table": table, "index": flat})["y"], (*shape, count)
        )
    apart = i.graph.reshaped(name, (*shape, 1))
    away = differs(i, apart, i.constant(np.arange(count, dtype=np.float32)))
    return i.graph.stop(negation(i, away))


def rows_of(i: Importer, table: str, index: str, **how: Any) -> str:
    """Rows of a table; of a computed index, its products with ones."""
    if i.graph.values[index].dtype == "int32":
        return i.node("take", {"table": table, "index": index}, **how)["y"]
    shape, (count, columns) = i.graph.values[index].shape, i.graph.values[table].shape
    ones = i.graph.reshaped(ones_at(i, Known(i, index), count), (prod(shape), count))
    y = i.node("matmul", {"A": ones, "B": table})["C"]
    return i.graph.reshaped(y, (*shape, columns))

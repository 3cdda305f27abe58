"""Views: tensors in L1 as rows, said as data; and work on the rows that is emitted from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL
from trainlib.elementwise.elementwise import fits, fitting
from trainlib.primitive.element import BF16, F16, F32, Element
from trainlib.primitive.tensor import Address
from trainlib.reduction.row_reduction import Field, Rows, Split, sharing_of


@dataclass(frozen=True)
class View:
    """Tensors as rows, see Rows.

    rows, elements    sizes by dimension
    fields            tensors by name
    partials          scratch, as large as trainlib.reduction.row_reduction.PARTIALS
    in_groups         may some of the cores share a row, and others another?
    aligns            see Rows
    """

    rows: tuple[int, ...]
    elements: tuple[int, ...]
    fields: Mapping[str, Field]
    partials: Address = 0
    split: Split = "auto"
    unroll: int = UNROLL
    is_ordered: bool = False
    in_groups: bool = False
    aligns: bool = False

    def emit(
        self, k: Kernel, team: Team, work: Callable[[Rows], None], *, reductions: int = 1
    ) -> None:
        """Emit work on the rows, with as many elements side by side as registers allow.

        work          emits all with the builder of the rows that it gets
        reductions    of each row
        """
        sizes = prod(self.rows), prod(self.elements)
        how: dict[str, Any] = {"is_ordered": self.is_ordered, "aligns": self.aligns}
        groups = reductions, team.cores
        sharing = sharing_of(self.split, *sizes, *groups, in_groups=self.in_groups)
        of = self.rows, self.elements, self.fields, self.partials, sharing

        def emit(k: Kernel, team: Team, width: int) -> None:
            with k.scope():
                work(Rows(k, team, *of, unroll=width, **how))

        width = self.unroll
        elements = [field.element for field in self.fields.values()]
        if BF16 in elements or F16 in elements and self.aligns:
            width *= 2  # two halves are one load
            while width > 2 and not fits(k, team, partial(emit, width=width)):
                width -= 2
        if fits(k, team, partial(emit, width=width)):
            emit(k, team, width)
            return
        how["spills"] = True
        how["is_together"] = fits(k, team, partial(emit, width=1))
        fitting(k, team, emit, width)


def field_along(
    address: Address,
    steps: Mapping[str, int],
    rows: Sequence[str],
    elements: Sequence[str],
    element: Element = F32,
) -> Field:
    """A tensor with axes as names: bytes along those that it has, the axes of rows and elements."""
    of_rows = tuple(steps.get(axis, 0) for axis in rows) or (0,)
    return Field(address, of_rows, tuple(steps.get(axis, 0) for axis in elements), element)


def line_of(
    fields: Mapping[str, Address],
    results: Mapping[str, Address],
    count: int,
    partials: Address,
    unroll: int,
    element: Element = F32,
) -> View:
    """One row of so many elements, partitioned among the cores; results have no elements."""
    step = (element.size,)
    own = {name: Field(address, (0,), step, element) for name, address in fields.items()}
    own |= {name: Field(address, (0,), (0,)) for name, address in results.items()}
    return View((1,), (count,), own, partials, "columns", unroll)

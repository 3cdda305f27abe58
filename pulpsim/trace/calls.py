"""Call stacks, rebuilt from the instructions that each hart issued.

A call is a jump that links ra or t0 and whose next instruction is not the one after it; a return
is a jump through one of them. Where code leaves a function otherwise (tail calls, traps), the
function on top of the stack is replaced: what is on top is always what executes.
"""

import numpy as np

from pulpsim.trace.code import CALL, RETURN, Code
from soc.trace.reader import Kind

CHANGE = np.dtype(
    [
        ("cycle", "i8"),  # since the trace's first
        ("hart", "i4"),
        ("is_begin", "?"),
        ("function", "i4"),  # as Code numbers them
        ("pc", "u4"),  # of the instruction whose issue shows it
        ("issue", "i8"),  # its number in the events given
    ]
)
"""A function begins or ends on a hart's stack."""


class CallStacks:
    """The stacks of all harts; events are given to it in order, part by part."""

    def __init__(self, code: Code, harts: int) -> None:
        self.harts = [HartStack(code, hart) for hart in range(harts)]

    def changes(self, part: np.ndarray) -> np.ndarray:
        """What begins and ends in EVENT[n]: CHANGE[m], by cycle."""
        places = np.flatnonzero(part["kind"] == Kind.ISSUE)
        owners = part["hart"][places]
        found = [np.zeros(0, CHANGE)]
        for stack in self.harts:
            own = places[owners == stack.hart]
            if own.size:
                found.append(stack.changes(part[own], own))
        rows = np.concatenate(found)
        return rows[np.argsort(rows["issue"], kind="stable")]

    def close(self, cycle: int) -> np.ndarray:
        """The ends of what is still open: CHANGE[m]."""
        return np.concatenate([stack.close(cycle) for stack in self.harts])


class HartStack:
    """The stack of one hart: numbers of functions, the outermost first."""

    def __init__(self, code: Code, hart: int) -> None:
        self.code, self.hart = code, hart
        self.functions: list[int] = []
        self.flow, self.after = 0, 0  # of the last instruction

    def changes(self, issues: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """What changes at these instructions of the hart, which have these numbers."""
        pcs = issues["a"]
        functions = self.code.function(pcs)
        depths = self._depths(pcs)
        is_first = not self.functions
        before = np.concatenate([[-1 if is_first else len(self.functions) - 1], depths[:-1]])
        previous = np.concatenate([[-1 if is_first else self.functions[-1]], functions[:-1]])
        points = np.flatnonzero((depths != before) | (functions != previous))
        callers = self._callers(depths[points], functions[points])
        return self._rows(
            issues[points],
            numbers[points],
            functions[points],
            previous[points],
            depths[points] - before[points],
            callers,
        )

    def close(self, cycle: int) -> np.ndarray:
        """The ends of what is still open, the innermost first."""
        functions, self.functions = self.functions, []
        rows = [(cycle, self.hart, False, function, 0, 0) for function in reversed(functions)]
        return np.array(rows, CHANGE)

    def _depths(self, pcs: np.ndarray) -> np.ndarray:
        """Count the functions below the one of each instruction: int64[n]."""
        flow, size = self.code.flow(pcs)
        flows = np.concatenate([[self.flow], flow])
        after = np.concatenate([[self.after], pcs + size])
        self.flow, self.after = int(flows[-1]), int(after[-1])
        is_call = (flows[:-1] == CALL) & (after[:-1] != pcs)
        steps = is_call.astype(np.int64) - (flows[:-1] == RETURN)
        depths = max(len(self.functions) - 1, 0) + np.cumsum(steps)
        if not self.functions:  # nothing is known of what came before
            depths -= steps[0]
        return depths - np.minimum(np.minimum.accumulate(depths), 0)

    def _callers(self, depths: np.ndarray, functions: np.ndarray) -> np.ndarray:
        """The function that is at each point's depth before it; -1 if none. Keeps the stack.

        Depth changes by one at a time. So what a return comes back to is the last point before it
        of the same depth.
        """
        below = np.arange(len(self.functions))
        all_depths = np.concatenate([below, depths])
        all_functions = np.concatenate([np.array(self.functions, np.int64), functions])
        order = np.argsort(all_depths, kind="stable")
        last = np.full(order.size, -1, np.int64)
        same = all_depths[order[1:]] == all_depths[order[:-1]]
        last[order[1:][same]] = all_functions[order[:-1][same]]
        if order.size:
            levels = np.arange(int(all_depths[-1]) + 1)
            tops = order[np.searchsorted(all_depths[order], levels, "right") - 1]
            self.functions = all_functions[tops].tolist()
        return last[below.size :]

    def _rows(
        self,
        issues: np.ndarray,
        numbers: np.ndarray,
        functions: np.ndarray,
        previous: np.ndarray,
        steps: np.ndarray,
        callers: np.ndarray,
    ) -> np.ndarray:
        """At each point what ends, the last function and a wrong caller, and what begins."""
        differs = (steps < 0) & (callers != functions)
        wanted = np.stack([steps <= 0, differs, (steps >= 0) | differs], axis=1)
        point, which = np.nonzero(wanted)
        rows = np.zeros(point.size, CHANGE)
        rows["cycle"], rows["hart"] = issues["cycle"][point], self.hart
        rows["pc"], rows["issue"] = issues["a"][point], numbers[point]
        rows["is_begin"] = which == 2
        rows["function"] = np.choose(which, [previous[point], callers[point], functions[point]])
        return rows

"""The schedule of a program: sections of nodes, and the values that are read between batches."""

from dataclasses import dataclass
from itertools import accumulate

from trainlib.deploy.graph.values import Graph, Node


@dataclass(frozen=True)
class Section:
    """Nodes that are computed one after the other, so many times; a batch each time, or none.

    skipped    a value with a word that is not 0 where they are left out, and the word's number
    """

    nodes: tuple[Node, ...]
    times: int = 1
    takes_batch: bool = True
    skipped: tuple[str, int] | None = None


@dataclass(frozen=True)
class Schedule:
    """A step: its sections, one after the other.

    kept         temporary values that are read after a batch: the loss, gradients, outputs
    reference    the graph before passes changed the order and put values in place of others; its
                 nodes are the sections'
    """

    graph: Graph
    sections: tuple[Section, ...]
    kept: tuple[str, ...]
    reference: Graph

    @property
    def nodes(self) -> list[Node]:
        """Nodes of all sections."""
        return [node for section in self.sections for node in section.nodes]

    @property
    def batches(self) -> int:
        """In a step."""
        return sum(section.times for section in self.sections if section.takes_batch)

    @property
    def stops(self) -> list[int]:
        """Nodes before which a batch is written, but for the first."""
        starts = accumulate((len(section.nodes) for section in self.sections), initial=0)
        taking = zip(starts, self.sections, strict=False)
        return [start for start, section in taking if start and section.takes_batch]

    @property
    def inputs(self) -> list[str]:
        """Values of a batch."""
        return [value.name for value in self.graph.of_role("input")]

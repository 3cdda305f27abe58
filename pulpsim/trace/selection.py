"""A selection of a recording's events, by the filters of `pulpsim run --trace-filter`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from isa.program import Program, Segment, Symbol
from pulpsim.trace.aggregates import parts
from soc.config.toml import ConfigError
from soc.trace.filter import Sieve, TraceFilter, trace_filter
from soc.trace.reader import Trace, taken

FILTER = re.compile(r"^trace filter '(\w+)=(.*?)'(?=: )")
"""What a message of soc.trace.filter begins with."""


@dataclass(frozen=True)
class Selection:
    """Filters that an event has to pass, all of them; without any, everything passes."""

    wanted: TraceFilter = field(default_factory=TraceFilter)

    @classmethod
    def of(cls, trace: Trace, **filters: Sequence[str]) -> "Selection":
        """The filters of a command line: hart=["0-3", "fc"], kind=["issue,stall"], ...

        raises    ConfigError for what this trace does not know
        """
        texts = [f"{key}={value}" for key, values in filters.items() for value in values]
        try:
            known = _program(trace)
            return cls(trace_filter(texts, trace.initiators, known, trace.regions))
        except ConfigError as error:
            raise ConfigError([_as_option(line) for line in str(error).splitlines()]) from None

    def parts(self, trace: Trace) -> Iterator[np.ndarray]:
        """The selected events in order, EVENT[n] at a time; n may be 0."""
        sieve = Sieve(self.wanted, len(trace.harts))
        for part in parts(trace, *(self.wanted.cycles or (None, None))):
            own = sieve.passed(part)
            keep = np.ones(own.size, bool)
            for name, numbers in (("kind", self.wanted.kinds), ("hart", self.wanted.harts)):
                if numbers is not None:
                    keep &= np.isin(own[name], list(numbers))
            yield own if keep.all() else taken(own, keep)


def _program(trace: Trace) -> Program:
    """What filters name of the recorded program."""
    code = ((start, bytes.fromhex(digits)) for start, digits in trace.header["code"])
    segments = tuple(Segment(start, data, len(data), executable=True) for start, data in code)
    symbols = tuple(Symbol(name, start, size, "function") for start, size, name in trace.symbols)
    return Program(segments, 0, symbols)


def _as_option(line: str) -> str:
    """--hart x: ... for trace filter 'hart=x': ..."""
    return FILTER.sub(r"--\1 \2", line)

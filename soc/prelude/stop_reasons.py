"""Why the loop returns: what it finds in `wheel.stop` after a cycle, and what else ends it."""

END = 0  # the window is over
ASLEEP = 1  # nothing is due
HOST = 2  # requests wait for the host
DECODE = 3  # a hart has come to code that is not decoded
HALT = 4  # a hart stopped the simulation
DMA_ERROR = 5  # the DMA was told to go where it cannot
TRACE = 6  # the trace's buffer is full
WARNING = 8  # an access through a null pointer is noted: see soc.core.null_accesses
POLL = 7  # a superblock has become hot: see soc.jit.translator

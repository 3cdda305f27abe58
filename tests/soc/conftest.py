"""Step functions that tests call are compiled, as they are in a simulation."""

import soc.aot.numba_steps  # noqa: F401

"""The chip, and how it runs: rooms in the order of imports.

config          TOML files into checked models
host            files, processes and signals of the host
prelude         step functions, records, counters, the timing wheel, trace points
address_map     registers, event lines, the memory map
interconnect    the round-robin arbiter, L1's banks, the way to L2
icache          prefetch buffer, private caches, shared banks
dma             the cluster DMA, MCHAN
event_unit      barriers, mutexes, events, dispatch
chip            Spec and State of a whole chip
aot             step functions into machine code, ahead of time
core            a hart: pipeline, hazards, load-store unit, FPU, CSRs, traps
peripherals     SimPy processes behind the bus
cluster         what joins harts, L1, DMA and event unit
engine          the event engine, the cycle loop, the interpreter
jit             superblocks into machine code, while a program runs
trace           recorded runs: written and read
check           races, misused bytes, stacks, conflicts at banks
debug           sessions, checkpoints
"""

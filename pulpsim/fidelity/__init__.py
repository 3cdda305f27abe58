"""The simulator held against what was measured on PULP's RTL, in one command.

The RTL ran in Verilator: CV32E40P 1.8.3 and the RI5CY that pulp_cluster instantiates, PULP's TCDM
interconnect with 16 single-cycle banks, event unit, MCHAN, hier-icache, the way to L2. data/ holds
the programs and what was measured of each.
"""

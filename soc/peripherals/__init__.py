"""Peripherals: SimPy-side components behind the bus, one file for each kind."""

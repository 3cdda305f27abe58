"""Studies: sweeps of simulations whose results are kept, shown, drawn and put into words."""

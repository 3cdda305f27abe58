"""The fastest tiling and kernel of a layer, found by simulation and remembered."""

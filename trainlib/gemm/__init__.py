"""Products of matrices: of any two, of linear layers, as parts of larger primitives."""

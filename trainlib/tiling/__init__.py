"""Primitives as programs: tensors in L2, parts of them in L1, and the copies between."""

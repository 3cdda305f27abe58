"""Rows: what is computed of all elements of a row; sums, softmax, lookups."""

"""Loops around code, partitioned among the cores of a team, and what they keep in registers."""

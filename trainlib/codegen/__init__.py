"""Loops around code, dealt out to the cores of a team, and what they keep in registers."""

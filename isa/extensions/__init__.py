"""Instruction declarations, an extension a file."""

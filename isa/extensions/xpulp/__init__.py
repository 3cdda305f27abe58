"""Xpulpv2: RI5CY's own instructions, an extension a file."""

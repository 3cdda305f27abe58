"""Recorded runs: shown, summed up, and exported to the formats of other tools."""

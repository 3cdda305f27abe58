"""Normalisations, forward and backward."""

"""Recurrent layers over sequences, forward and backward."""

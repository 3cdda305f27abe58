"""Floating-point arithmetic of any format: in software, and by the host."""

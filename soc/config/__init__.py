"""TOML files into checked models."""

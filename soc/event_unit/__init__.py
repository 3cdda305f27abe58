"""The event unit."""

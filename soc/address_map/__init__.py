"""The memory map and the registers."""

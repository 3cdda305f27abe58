"""All primitives by name, and calls of them in a network."""

"""Training of whole networks, of all primitives."""

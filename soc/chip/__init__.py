"""A chip: its Spec and its State."""

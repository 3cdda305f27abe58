"""A hart."""

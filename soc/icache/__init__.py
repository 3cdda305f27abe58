"""Prefetch buffer, private caches, shared banks."""

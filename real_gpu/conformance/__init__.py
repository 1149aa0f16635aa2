"""Conformance: the same random programs through the formal model and through the real backends."""

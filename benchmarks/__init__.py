"""Seeded benchmarks; each prints its table when run as a module."""

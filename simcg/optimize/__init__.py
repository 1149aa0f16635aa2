"""Exact ladders, their certificates and their robustness."""

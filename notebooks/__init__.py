"""Jupyter notebooks with their outputs, and the command that makes those."""

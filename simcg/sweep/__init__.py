"""Sweeps: many configurations of one command, over processes, resumable."""

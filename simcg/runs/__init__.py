"""Runs of a real GPU as data: their schema, what a profile predicts for them, and how far off."""

"""Lean decoders with random weights whose ops per layer are those of an engine's."""

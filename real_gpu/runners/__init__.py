"""Runners own shapes, static inputs and metadata; backends only capture and replay."""

"""Measures whole steps, captures, memory and decisions on the device at hand: `simcg measure`."""

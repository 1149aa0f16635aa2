"""Discrete-event simulation on SimPy: launches, memory, capture and serving."""

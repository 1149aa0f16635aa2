"""Watches a capture and writes down what it does, as ``simcg.formal.recording`` has it."""

"""Attention over a KV cache: planned outside a graph, run inside one or as a break."""

"""The formal model of capture and replay: what a recording says, and what must hold of it."""

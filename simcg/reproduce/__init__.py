"""Published and measured results beside simulated ones."""

"""From request traces and distributions to the prefill steps that a scheduler runs."""

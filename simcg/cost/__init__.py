"""What a step, a ladder and a start-up cost on a profile."""

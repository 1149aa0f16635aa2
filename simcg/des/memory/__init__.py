"""Device memory during capture: the caching allocator, its pools, and what a ladder plays in it."""

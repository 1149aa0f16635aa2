"""GPU profiles: host, launch, kernel, collective and memory costs, with their provenance."""

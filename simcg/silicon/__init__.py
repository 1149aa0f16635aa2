"""Profiles from the measured kernel tables of aiconfigurator-core (Apache-2.0)."""

"""The command line: the only place that prints."""

from simcg.cli.app import main

__all__ = ["main"]

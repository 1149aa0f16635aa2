"""One step on hosts, streams and ranks, event by event: programs, the machine, what it costs."""

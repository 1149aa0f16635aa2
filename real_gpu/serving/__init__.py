"""A small server in one process: a trace's requests, batched in steps on the device at hand."""

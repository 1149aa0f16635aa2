"""Static checks of recordings: dataflow over one capture, and over those that share a pool."""

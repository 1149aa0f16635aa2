"""Graph devices: record a stretch of tensor work at fixed addresses, and replay it."""

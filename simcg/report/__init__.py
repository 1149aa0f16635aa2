"""Tables and plots of results; nothing here prints."""

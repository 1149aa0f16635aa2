"""What each engine does by default, may be told by flags, and prints."""

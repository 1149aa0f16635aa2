"""One traced forward, cut at its breaks into pieces that are compiled and captured apart."""

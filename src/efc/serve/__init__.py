"""A classifier as a running service: it answers and learns over HTTP, and what it has accepted survives a crash."""

"""Searching for good settings on validation data."""

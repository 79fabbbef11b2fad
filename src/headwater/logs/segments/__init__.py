"""Segment files: their bytes, reading, appending, indexes and repair."""

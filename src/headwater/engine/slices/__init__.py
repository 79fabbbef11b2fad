"""Slices: where windows cut the stream, which row an event adds to, and the store of rows."""

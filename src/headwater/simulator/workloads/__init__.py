"""Streams and queries drawn from a seed, whose right answer is known."""

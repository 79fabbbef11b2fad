"""A job file: its structs, its lines, and every mistake in it as a sentence."""

"""What a stream reads: segment logs, growing folders and generators, as sources that can be read again."""

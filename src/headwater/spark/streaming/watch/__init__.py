"""Everything that watches a stream while it runs: status, live line, metrics, logs."""

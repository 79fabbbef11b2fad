"""Windows out of slices: which windows close, what late events change, and the revisions that follow."""

"""The two halves of an engine over a tree: a leaf cuts events into parts, a root makes windows of parts."""

"""Nodes without a root: what one of them knows and runs of a program whose windows close at canonical steps."""

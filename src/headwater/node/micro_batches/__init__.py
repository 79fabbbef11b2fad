"""Roots that are given micro-batches whole, as Spark's stateful operators do."""

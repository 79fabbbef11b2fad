"""Roots that take micro-batches whole, for Spark's stateful operators."""

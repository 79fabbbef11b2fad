"""Exact sums of integers and floats: the same bits in any order and grouping."""

"""Sorted runs of values: the partial behind quantiles, median, mode and count distinct."""

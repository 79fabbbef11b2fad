"""`hw.explain` of a DataFrame: which plan each query gets, why, and what will cross."""

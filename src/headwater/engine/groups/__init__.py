"""Query groups: queries that share slices and operators, those that keep their events, and the papers' baselines."""

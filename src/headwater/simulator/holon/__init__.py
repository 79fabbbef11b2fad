"""Nodes without a root in a simulated world: what they share, what goes wrong, and what must hold all the same.

All nodes of a run read the same input, write into the same output and look into the same decision log. These are objects whose
every step is atomic; what lies between two steps is up to the seed.
"""

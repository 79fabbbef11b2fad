"""Checkers of what nodes emit, the truth that they compare with, and counts of what occurred."""

"""Is what comes out right? Checkers, the truth they compare with, and counts of what occurred."""

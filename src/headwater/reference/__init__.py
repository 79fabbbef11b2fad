"""The oracle: the slow, obvious answer to every query, in plain Python, which all tests compare with."""

"""Queries as files: JSON and YAML, conditions among them, and Disco's strings."""

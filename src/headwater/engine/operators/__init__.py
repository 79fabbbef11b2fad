"""Shared operators: how events become partials, how partials combine, and their bytes."""

"""The language: queries, windows, aggregates, conditions and times, small frozen descriptions, checked when written."""

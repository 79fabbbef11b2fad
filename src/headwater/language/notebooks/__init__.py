"""How what a user writes shows itself to people: windows and queries in words, and small tables for notebooks."""

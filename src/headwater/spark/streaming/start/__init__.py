"""How a stream starts: its checkpoint, queries, roots and settings; and the handle a user gets."""

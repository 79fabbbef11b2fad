"""What a node without a root does besides running its program: each duty knows its own state and nothing of the others'."""

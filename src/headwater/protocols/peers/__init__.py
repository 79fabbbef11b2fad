"""What nodes without a root need of one another: who lives, who runs what, what was decided, and what they tell each other."""

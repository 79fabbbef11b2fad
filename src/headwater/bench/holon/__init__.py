"""What nodes without a coordinator cost, and what they tell each other."""

"""What the papers compare with: groups that share less, and the numbers of slices and calculations as the papers count them."""

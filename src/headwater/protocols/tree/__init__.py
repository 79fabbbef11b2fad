"""What only nodes of a tree need: what was sent and is not accepted yet, how relays pass it on, what is read again."""

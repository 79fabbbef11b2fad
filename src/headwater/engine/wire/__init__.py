"""What leaves and roots exchange, and its bytes: parts of deltas, query sets, looks, snapshots."""

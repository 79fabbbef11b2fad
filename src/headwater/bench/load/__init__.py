"""A load driver: events on a schedule that waits for nobody, and latency judged from that schedule."""

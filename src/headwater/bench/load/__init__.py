"""A load driver: events on a schedule that never waits for the system under test, and latency judged from that schedule."""

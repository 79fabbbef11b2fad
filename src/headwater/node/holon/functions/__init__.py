"""What users' functions do with events and with windows that are final, within a node."""

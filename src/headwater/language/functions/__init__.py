"""Processing functions: states that are windows, and handlers that are called when a window is final everywhere."""

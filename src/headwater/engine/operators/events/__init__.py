"""Values and events with their places in the order: partials of which it matters what came first."""

"""From closed windows to result rows: partials lowered to values, and laid out as Arrow tables."""

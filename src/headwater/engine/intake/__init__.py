"""From record batches to chunks of well-formed events: columns, keys as numbers, watermarks, order."""

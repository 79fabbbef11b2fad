"""Arrays in, arrays out: slices, shared operators and windows, without any I/O."""

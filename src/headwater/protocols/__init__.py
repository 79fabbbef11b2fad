"""Pure machines: what nodes say to one another and when. Time is passed in, nothing here does I/O, and partials are opaque."""

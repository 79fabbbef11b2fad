"""Count windows over many nodes: pieces of streams, the search for cuts, and its proof."""

"""`headwater bench deco`: count windows over many nodes, every scheme in one run."""

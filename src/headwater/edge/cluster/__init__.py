"""Runs a plan of nodes in processes on this machine, and collects what came of it."""

"""Known mistakes, planted one at a time to test the simulator itself."""

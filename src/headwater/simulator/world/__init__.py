"""The simulated world: machines, network, faults and the queue of what happens next."""

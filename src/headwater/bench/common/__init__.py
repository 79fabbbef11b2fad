"""What all benchmarks share: reports, timing, plots, workloads and peers."""

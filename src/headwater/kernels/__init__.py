"""What compiling does to the world: kernels are kept on disk, and whoever has to wait for them is told."""

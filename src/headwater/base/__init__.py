"""The ground of engine and protocols: compiled kernels, arrays, and integers and names as bytes."""

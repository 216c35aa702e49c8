"""Benchmarks: ours and its peers, interleaved on one machine. See `benchmarks/README.md`."""

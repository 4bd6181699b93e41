"""Comparison with other libraries, each in its pinned environment: `python -m benchmarks.peers`."""

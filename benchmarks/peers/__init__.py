"""Other libraries beside ours, each in its pinned environment: `python -m benchmarks.peers`."""

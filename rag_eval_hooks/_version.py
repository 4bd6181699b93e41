"""The package's version, read by the build and stamped on every score."""

__version__: str = "0.1.0"
